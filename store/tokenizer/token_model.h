#pragma once
// The field "model" of a tokenizer.json: how a piece of text becomes ids.
#include <memory>

#include "store/tokenizer/fields.h"
#include "store/tokenizer/vocabulary.h"

namespace es::store {

// Immutable and thread-safe.
class TokenModel {
 public:
  virtual ~TokenModel() = default;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Appends the ids of a piece. Error (failure): a piece has no token, and there is no token for
  // unknown ones. REQUIRES: the piece is UTF-8.
  virtual Status encode(std::string_view piece, std::vector<std::uint32_t>& ids) const = 0;

 protected:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

 private:
  Vocabulary vocabulary_;
};

// Kinds: "BPE", "WordPiece", "Unigram". Errors (usage): another kind, or a field is not as it must
// be.
Result<std::unique_ptr<TokenModel>> read_model(const Fields& file);

// Each kind, for read_model().
Result<std::unique_ptr<TokenModel>> read_bpe(const Fields& model);
Result<std::unique_ptr<TokenModel>> read_word_piece(const Fields& model);
Result<std::unique_ptr<TokenModel>> read_unigram(const Fields& model);
// The field "vocab" of the first two kinds: {"TOKEN": ID, ...}.
Result<Vocabulary> read_vocabulary(const Fields& model);
// The token that the field `key` names; nullopt without the field. Error: it is not in the
// vocabulary.
Result<std::optional<std::uint32_t>> read_named_token(const Fields& model, const char* key,
                                                      const Vocabulary& vocabulary);

}  // namespace es::store
