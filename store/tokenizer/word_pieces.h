#pragma once
// WordPiece: a word becomes the longest token with which it begins, then the longest one for the
// rest, and so on. Pure.
#include <cstddef>

#include "store/tokenizer/vocabulary.h"

namespace es::store {

struct WordPieceRules {
  std::uint32_t unknown = 0;  // the token of a word that cannot be divided, or is too long
  std::string prefix = "##";  // of every token but the first one of a word
  std::uint64_t characters_max = 100;
};

// A token, and the bytes [begin, end) of the word for which it stands.
struct WordToken {
  std::uint32_t id = 0;
  std::size_t begin = 0, end = 0;
};

// The tokens of a word: none for an empty one. REQUIRES: the word is UTF-8.
std::vector<WordToken> divided_word(const Vocabulary& vocabulary, const WordPieceRules& rules,
                                    std::string_view word);

}  // namespace es::store
