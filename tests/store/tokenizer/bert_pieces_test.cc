#include "store/tokenizer/bert_pieces.h"

#include <doctest/doctest.h>

#include "proto/base/digest.h"
#include "store/tokenizer/utf8.h"

using namespace es;
using namespace es::store;

namespace {

std::string utf8(char32_t c) {
  std::string text;
  append_character(c, text);
  return text;
}

// Every character below U+3000 as the beginning of a word and inside of one.
Vocabulary characters() {
  Vocabulary all;
  all.add("[UNK]", 0);
  for (char32_t c = 0x21; c < 0x3000; ++c)
    for (const char* const prefix : {"", "##"}) all.add(prefix + utf8(c), all.size());
  return all;
}

}  // namespace

TEST_SUITE("store/tokenizer/bert_pieces") {
  // A sample of questions must not depend on the version of the library that has the tables.
  TEST_CASE("every character is what it was with the tables of Unicode 14") {
    const Vocabulary vocabulary = characters();
    DigestBuilder digest;
    for (char32_t c = 0; c < 0x110000; ++c) {
      const std::string text = "a" + utf8(c) + "b";
      for (const BertPiece& piece : bert_pieces(vocabulary, {}, text)) {
        digest.add_u64(static_cast<std::uint64_t>(piece.id));
        digest.add_u64(piece.begin);
        digest.add_u64(piece.end);
      }
    }
    CHECK(digest.finish().hex() == "2342649c62ce537ea6a41a73b2b526ba");
  }
}
