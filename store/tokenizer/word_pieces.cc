#include "store/tokenizer/word_pieces.h"

#include <optional>

#include "store/tokenizer/utf8.h"

namespace es::store {
namespace {

// The longest token that begins with character `first`; `ends` are those of the characters.
std::optional<WordToken> longest_token(const Vocabulary& vocabulary, const std::string& prefix,
                                       std::string_view word, const std::vector<std::size_t>& ends,
                                       std::size_t first) {
  const std::size_t begin = first == 0 ? 0 : ends[first - 1];
  std::string rest = first == 0 ? "" : prefix;
  const std::size_t before = rest.size();
  rest += word.substr(begin);
  for (std::size_t last = ends.size(); last > first; --last) {
    const std::size_t end = ends[last - 1];
    const auto id = vocabulary.find(std::string_view(rest).substr(0, before + end - begin));
    if (id) return WordToken{*id, begin, end};
  }
  return std::nullopt;
}

}  // namespace

std::vector<WordToken> divided_word(const Vocabulary& vocabulary, const WordPieceRules& rules,
                                    std::string_view word) {
  const auto whole = [&] { return std::vector<WordToken>{{rules.unknown, 0, word.size()}}; };
  std::vector<std::size_t> ends;
  for (std::size_t at = 0; at < word.size(); ends.push_back(at)) next_character(word, at);
  if (ends.size() > rules.characters_max) return whole();
  std::vector<WordToken> tokens;
  for (std::size_t first = 0; first < ends.size();) {
    const auto token = longest_token(vocabulary, rules.prefix, word, ends, first);
    if (!token) return whole();
    tokens.push_back(*token);
    while (first < ends.size() && ends[first] <= token->end) ++first;
  }
  return tokens;
}

}  // namespace es::store
