// WordPiece: a word becomes the longest token with which it begins, then the longest one for the
// rest, and so on. A word that cannot be divided, or is too long, is one unknown token.
#include "store/tokenizer/characters.h"
#include "store/tokenizer/token_model.h"

namespace es::store {
namespace {

constexpr std::uint64_t kWordCharactersMax = 1'000'000;

class WordPieces final : public TokenModel {
 public:
  WordPieces(Vocabulary vocabulary, std::uint32_t unknown, std::string prefix,
             std::uint64_t characters_max)
      : TokenModel(std::move(vocabulary)),
        unknown_(unknown),
        prefix_(std::move(prefix)),
        characters_max_(characters_max) {}

  Status encode(std::string_view piece, std::vector<std::uint32_t>& ids) const override {
    const std::size_t before = ids.size();
    std::vector<std::size_t> ends;  // of the characters
    for (std::size_t at = 0; at < piece.size(); ends.push_back(at)) take_character(piece, at);
    std::size_t first = 0;
    bool divisible = ends.size() <= characters_max_;
    while (divisible && first < ends.size()) divisible = take_longest(piece, ends, first, ids);
    if (divisible) return {};
    ids.resize(before);
    ids.push_back(unknown_);
    return {};
  }

 private:
  // Appends the longest token that begins with character `first`, which moves behind it.
  bool take_longest(std::string_view piece, const std::vector<std::size_t>& ends,
                    std::size_t& first, std::vector<std::uint32_t>& ids) const {
    const std::size_t begin = first == 0 ? 0 : ends[first - 1];
    std::string rest = first == 0 ? "" : prefix_;
    const std::size_t prefix = rest.size();
    rest += piece.substr(begin);
    for (std::size_t last = ends.size(); last > first; --last) {
      const auto id =
          vocabulary().find(std::string_view(rest).substr(0, prefix + ends[last - 1] - begin));
      if (!id) continue;
      ids.push_back(*id);
      first = last;
      return true;
    }
    return false;
  }

  std::uint32_t unknown_;
  std::string prefix_;
  std::uint64_t characters_max_;
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
  return std::unique_ptr<TokenModel>(
      std::make_unique<WordPieces>(*std::move(vocabulary), **unknown, *prefix, *characters));
}

}  // namespace es::store
