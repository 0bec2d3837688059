#pragma once
// Writes a directory of tokens for data.kind = "tokens" from files of text: train/, eval/ and a
// description in tokens.json.
#include <functional>

#include "store/dataset/tokens/token_writer.h"
#include "store/tokenizer/tokenizer.h"

namespace es::store {

struct TokenSetRequest {
  std::vector<std::filesystem::path> texts;
  std::filesystem::path out;              // a new directory
  std::string field = "text";             // of a line of JSON
  double eval_share = 0;                  // 0 <= eval_share < 1
  std::optional<std::uint32_t> appended;  // a token behind every document
  std::uint64_t shard_tokens = 0;         // 1 to kShardTokensMax
};

struct TokenHalfCounts {
  std::uint64_t documents = 0, tokens = 0, shards = 0;
};

struct TokenSetCounts {
  std::uint64_t text_bytes = 0;  // of the documents
  TokenHalfCounts train, eval;
  bool wide = false;  // uint32, because an id may need more than 16 bits
};

// The bytes of all files that are done, and of all files (0 if that is not known, because one is
// compressed). False ends the work.
using TokenSetProgress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// The evaluation gets the documents that bring its number up to eval_share of all documents in
// lines of JSON, and of every plain text file the lines from share_begin() on. All is written into
// a directory beside `out`, which gets its name at the end, or is removed. nullopt: `progress` has
// ended the work. Errors: those of read_documents and Tokenizer::encode with the file; refused
// (`out` exists); usage (there is no text for the training); failure (disk).
Result<std::optional<TokenSetCounts>> write_token_set(FileSystem& files, const Tokenizer& tokenizer,
                                                      const TokenSetRequest& request,
                                                      const TokenSetProgress& progress);

// What tokens.json says about the tokenizer. nullopt if the directory has no such file. Error
// (usage): the file is not as write_token_set writes it.
struct TokenSetDescription {
  std::string tokenizer_digest;
  std::uint64_t vocabulary = 0;
};
Result<std::optional<TokenSetDescription>> read_token_set_description(
    const std::filesystem::path& directory);

}  // namespace es::store
