#pragma once
// The parts of `esctl data`; each has a source of its own.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"
#include "proto/base/result.h"
#include "store/dataset/tokens/token_set.h"
#include "store/dataset/tokens/token_summary.h"

namespace es::actors::esctl {

// --- What the command prints, from plain values (data_view.cc). JSON has no newline at its end.

// A directory that was written.
struct TokenSetView {
  std::string directory;
  std::string tokenizer_digest;
  std::uint64_t vocabulary = 0;
  store::TokenSetCounts counts;
};
std::string token_set_text(const TokenSetView& view);
std::string token_set_json(const TokenSetView& view);

struct TokenShardView {
  std::string file;
  std::string type;  // "u2", "u4", "i4" or "i8"
  std::uint64_t tokens = 0;
};

// The training or the evaluation of a directory; without shards there is none.
struct TokenHalfView {
  std::vector<TokenShardView> shards;
  store::TokenSummary summary;
  std::optional<std::string> first_text;  // of the first tokens, if there is a tokenizer
};

// A directory that was read. Without a tokenizer and a description the first two are not known.
struct TokenDirectoryView {
  std::string directory;
  std::optional<std::string> tokenizer_digest;
  std::optional<std::uint64_t> vocabulary;
  TokenHalfView train, eval;
};
std::string token_directory_text(const TokenDirectoryView& view);
std::string token_directory_json(const TokenDirectoryView& view);

// --- Directories of tar files for data.kind = "webdataset" (data_shards.cc).

// What `esctl data inspect` shows. Reads the headers and labels of all shards, and returns the text
// or the JSON object. Errors: those of shard_files and index_shards, with the keys of samples;
// usage (an index file that fits its shard names other samples).
Result<std::string> inspect_shards(const std::string& directory, bool json);

// Writes an index file beside every shard (shard_index_file.h), and returns the same as
// inspect_shards. Errors: those, and those of write_shard_index.
Result<std::string> write_shard_indexes(const std::string& directory, bool json);

// --- Adds `esctl data remove` (data_texts.cc): the encoded texts of a job file (encoded_texts.h).
void add_data_remove(CLI::App& data, Shell& shell);

}  // namespace es::actors::esctl
