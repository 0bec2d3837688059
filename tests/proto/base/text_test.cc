#include "proto/base/text.h"

#include <doctest/doctest.h>

namespace es {
namespace {

// A plain text is shown unchanged. Other texts are shown without anything that a terminal
// interprets.
void check_escaped(std::string_view text, const std::string& expected) {
  CHECK(escaped(text) == expected);
  CHECK(is_plain(escaped(text)));
  CHECK(is_plain(text) == (escaped(text) == text));
}

}  // namespace

TEST_SUITE("proto/base/text") {
  TEST_CASE("UTF-8 is distinguished from other bytes") {
    for (const char* good : {"", "plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\n\x1b"})
      CHECK(is_utf8(good));
    for (const char* bad :
         {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf",
          "\xf5\x80\x80\x80", "\xf4\x90\x80\x80", "a\xff", "\xe2\x82"}) {
      CAPTURE(bad);
      CHECK_FALSE(is_utf8(bad));
      CHECK_FALSE(is_plain(bad));
    }
  }

  TEST_CASE("characters that a terminal interprets are escaped byte by byte") {
    check_escaped("job-1 \xc3\xa4 \xe2\x82\xac", "job-1 \xc3\xa4 \xe2\x82\xac");
    check_escaped("a\x1b[2Jb", "a\\x1b[2Jb");
    check_escaped("one\ntwo\r", "one\\x0atwo\\x0d");
    check_escaped(std::string_view("a\0b", 3), "a\\x00b");
    check_escaped("\x7f", "\\x7f");
    check_escaped(
        "\xc2\x9b"
        "31m",
        "\\xc2\\x9b31m");  // C1: the control sequence introducer.
    check_escaped(
        "\xe2\x80\xae"
        "abc",
        "\\xe2\\x80\\xae"
        "abc");  // From right to left.
    check_escaped("\xff\xc3", "\\xff\\xc3");
  }

  TEST_CASE("characters that are kept stay, others do not") {
    CHECK(escaped("a\n\tb\x1b", "\n\t") == "a\n\tb\\x1b");
  }
}

}  // namespace es
