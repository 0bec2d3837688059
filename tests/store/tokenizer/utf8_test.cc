#include "store/tokenizer/utf8.h"

#include <doctest/doctest.h>

using namespace es::store;

TEST_SUITE("store/tokenizer/utf8") {
  TEST_CASE("UTF-8 is read strictly and written back") {
    for (const char32_t c : {0x24, 0x7f, 0x80, 0x7ff, 0x800, 0xffff, 0x10000, 0x10ffff}) {
      std::string text;
      append_character(c, text);
      std::size_t at = 0;
      CHECK(next_character(text, at) == c);
      CHECK(at == text.size());
    }
    for (const std::string bad : {"\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                  "\xe2\x82", "\xe0\x80\xaf", "\xff"}) {
      std::size_t at = 0;
      CHECK(next_character(bad, at) == kReplacement);
      CHECK(at == 1);
    }
    CHECK(byte_offset("aé東b", 3) == 6);
    CHECK(byte_offset("aé東b", 4) == 7);
    CHECK(byte_offset("aé東b", 5) == std::string::npos);
  }
}
