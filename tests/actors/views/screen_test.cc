#include "actors/views/screen.h"

#include <doctest/doctest.h>

using namespace es::actors;

TEST_SUITE("actors/views/screen") {
  TEST_CASE("states in the first two cells get a style, and no other words") {
    const Screen screen = coloured("JOB  STATE\na-1  running  failed\nfine  x\na-2  runnings\n");
    REQUIRE(screen.size() == 4);
    CHECK(screen[0].size() == 1);
    REQUIRE(screen[1].size() == 3);
    CHECK(screen[1][0].text == "a-1  ");
    CHECK(screen[1][1].text == "running");
    CHECK(screen[1][1].style == Style::kGood);
    CHECK(screen[1][2].text == "  failed");
    CHECK(screen[2][1].style == Style::kGood);
    CHECK(screen[3].size() == 1);
    CHECK(plain_text(screen) == "JOB  STATE\na-1  running  failed\nfine  x\na-2  runnings\n");
    CHECK(plain_text(coloured("")).empty());
    CHECK(plain_text(coloured("a\n\nb\n")) == "a\n\nb\n");
  }

  TEST_CASE("a line is cut to the columns, and characters of UTF-8 are not cut") {
    const ScreenLine line{{"ab"}, {"\xc3\xa4z", Style::kBad}, {"cd"}};
    CHECK(ansi_line(line, 80) == "ab\x1b[31m\xc3\xa4z\x1b[0mcd");
    CHECK(ansi_line(line, 3) == "ab\x1b[31m\xc3\xa4\x1b[0m");
    CHECK(ansi_line(line, 2) == "ab");
    CHECK(ansi_line(line, 0).empty());
  }

  TEST_CASE("no text reaches the terminal as a command") {
    CHECK(ansi_line({{"a\x1b[2Jb\nc"}}, 80) == "a\\x1b[2Jb\\x0ac");
  }
}
