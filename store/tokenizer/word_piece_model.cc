// The model "WordPiece" of a tokenizer.json.
#include "store/tokenizer/token_model.h"
#include "store/tokenizer/word_pieces.h"

namespace es::store {
namespace {

constexpr std::uint64_t kWordCharactersMax = 1'000'000;

class WordPieceModel final : public TokenModel {
 public:
  WordPieceModel(Vocabulary vocabulary, WordPieceRules rules)
      : TokenModel(std::move(vocabulary)), rules_(std::move(rules)) {}

  Status encode(std::string_view piece, std::vector<std::uint32_t>& ids) const override {
    for (const WordToken& token : divided_word(vocabulary(), rules_, piece))
      ids.push_back(token.id);
    return {};
  }

 private:
  WordPieceRules rules_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> read_word_piece(const Fields& model) {
  auto vocabulary = read_vocabulary(model);
  if (!vocabulary) return vocabulary.error();
  const auto unknown = read_named_token(model, "unk_token", *vocabulary);
  if (!unknown) return unknown.error();
  if (!*unknown) return model.bad("unk_token", "a token of model.vocab");
  const auto prefix = model.text("continuing_subword_prefix", "##");
  if (!prefix) return prefix.error();
  const auto characters = model.number("max_input_chars_per_word", kWordCharactersMax, 100);
  if (!characters) return characters.error();
  return std::unique_ptr<TokenModel>(std::make_unique<WordPieceModel>(
      *std::move(vocabulary), WordPieceRules{**unknown, *prefix, *characters}));
}

}  // namespace es::store
