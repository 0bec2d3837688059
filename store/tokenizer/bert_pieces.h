#pragma once
// The pieces of a text for the uncased models of BERT (Devlin et al. 2019), with the bytes from
// which they were made. The samples of questions have them, so no version of a library may change
// them: their characters are those of Unicode 14.
//
// Control characters and bytes that are not UTF-8 are dropped. The text is divided at spaces, and
// every punctuation sign and every Chinese character is a word of its own. Letters are converted to
// lower case without accents: ASCII, U+00C0..U+052F (Latin, Greek and Cyrillic) and U+1E00..U+1FFF.
// Of other letters only separate marks are removed (BERT would decompose Hangul and convert rarer
// scripts to lower case, as the normalizer "BertNormalizer" does).
//
// Pure.
#include "store/tokenizer/word_pieces.h"

namespace es::store {

struct BertPiece {
  std::int32_t id = 0;
  std::uint32_t begin = 0;  // bytes [begin, end) of the text
  std::uint32_t end = 0;
  bool operator==(const BertPiece&) const = default;
};

// REQUIRES: text.size() < 2^32.
std::vector<BertPiece> bert_pieces(const Vocabulary& vocabulary, const WordPieceRules& rules,
                                   std::string_view text);

}  // namespace es::store
