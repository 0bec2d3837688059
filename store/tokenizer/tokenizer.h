#pragma once
// Tokenizer: the tokenizer that a file tokenizer.json of the library "tokenizers" of Hugging Face
// describes. It gives the ids that this library gives.
//
// Known are the models BPE, WordPiece and Unigram, with the normalizers, pre-tokenizers,
// post-processors and decoders that normalizer.cc, pre_tokenizer.cc, post_processor.cc and
// token_decoder.cc list. Everything else is refused. The fields "truncation" and "padding" are
// ignored, because a whole text is encoded.
#include <filesystem>
#include <memory>
#include <span>

#include "proto/base/digest.h"
#include "store/tokenizer/added_tokens.h"
#include "store/tokenizer/stages.h"
#include "store/tokenizer/token_model.h"
#include "store/tokenizer/word_cache.h"

namespace es::store {

inline constexpr std::uint64_t kTokenizerBytesMax = std::uint64_t{256} << 20;

// Const functions are thread-safe.
class Tokenizer {
 public:
  // Errors: not found; failure (cannot be read); usage, naming file, field, value and what is
  // allowed.
  static Result<Tokenizer> read(const std::filesystem::path& file);
  // The same for the content of a file, which is called `name` in errors.
  static Result<Tokenizer> parse(std::string_view text, const std::string& name);

  // The largest id plus 1.
  std::uint32_t size() const { return size_; }
  // Of the bytes of the file.
  const Digest& digest() const { return digest_; }
  std::optional<std::uint32_t> find(std::string_view token) const;

  // Appends the ids of a text; with `surround` also the tokens of the post-processor. The cache
  // belongs to this tokenizer. Errors: usage (the text is not UTF-8, with the offset of the byte);
  // failure (a character has no token, or a pattern needs too much work).
  Status encode(std::string_view text, bool surround, WordCache& cache,
                std::vector<std::uint32_t>& ids) const;

  // The text of ids. With `skip_special` special tokens are left out. Errors: usage (an id is not
  // below size()); failure, as encode(). An id that no token has is left out.
  Result<std::string> decode(std::span<const std::uint32_t> ids, bool skip_special) const;

 private:
  Tokenizer() = default;
  Status encode_plain(std::string_view text, bool first, WordCache& cache,
                      std::vector<std::uint32_t>& ids) const;
  Status encode_pieces(Pieces pieces, WordCache& cache, std::vector<std::uint32_t>& ids) const;

  Digest digest_;
  std::uint32_t size_ = 0;
  std::shared_ptr<const TokenModel> model_;
  std::shared_ptr<const AddedTokens> added_;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  SurroundingTokens surrounding_;
  TokenDecoder decoder_;
};

}  // namespace es::store
