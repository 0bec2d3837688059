#pragma once
// What `esctl data` prints, from plain values. JSON has no newline at its end.
#include <optional>
#include <string>
#include <vector>

#include "store/dataset/tokens/token_set.h"
#include "store/dataset/tokens/token_summary.h"

namespace es::actors::esctl {

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

}  // namespace es::actors::esctl
