#include "actors/base/log/tail.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/store/temp_directory.h"

using namespace es;

namespace {

struct LogFile {
  test::TempDirectory directory;
  std::filesystem::path path = directory / "worker-1.log";

  explicit LogFile(const std::string& text) { test::write_file(path, text); }
};

}  // namespace

TEST_SUITE("actors/base/log/tail") {
  TEST_CASE("parts that follow each other have every line once, and none in two pieces") {
    const LogFile file("one\ntwo\nthr");
    const log::Part first = log::part_of(file.path, 0, 100, false);
    CHECK(first.text == "one\ntwo\n");
    CHECK(first.end == 8);
    CHECK_FALSE(first.complete);
    CHECK(log::part_of(file.path, 8, 100, false).text.empty());
    CHECK(log::part_of(file.path, 8, 100, false).end == 8);
    test::write_file(file.path, "one\ntwo\nthree\nlast");
    CHECK(log::part_of(file.path, 8, 100, false).text == "three\n");
    // The last line of a worker that was killed may have no end.
    const log::Part rest = log::part_of(file.path, 8, 100, true);
    CHECK(rest.text == "three\nlast");
    CHECK(rest.end == 18);
    CHECK(rest.complete);
  }

  TEST_CASE("a long log begins with its newest lines, and is followed without a gap") {
    const LogFile file("one\ntwo\nthree\n");
    const log::Part newest = log::part_of(file.path, 0, 9, false);
    CHECK(newest.text == "three\n");
    CHECK(newest.end == 14);
    const log::Part middle = log::part_of(file.path, 4, 7, true);
    CHECK(middle.text == "two\n");
    CHECK(middle.end == 8);
    CHECK_FALSE(middle.complete);
    CHECK(log::tail_of(file.path, 9) == "three\n");
  }

  TEST_CASE("a line that is longer than a part does not stop it") {
    const LogFile file("a long line\nb\n");
    std::string text;
    log::Part part;
    for (int n = 0; n < 9 && !part.complete; ++n) {
      part = log::part_of(file.path, text.empty() ? 1 : part.end, 4, true);
      text += part.text;
    }
    CHECK(text == " long line\nb\n");
  }

  TEST_CASE("a file that does not exist is empty") {
    const test::TempDirectory directory;
    const log::Part part = log::part_of(directory / "none", 7, 100, false);
    CHECK(part.text.empty());
    CHECK_FALSE(part.complete);
  }
}
