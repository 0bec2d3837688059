#include "store/checkpoint/new_file.h"

#include <doctest/doctest.h>

#include "tests/store/checkpoint/faulty_file_system.h"
#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::store;
using namespace es::test;

TEST_SUITE("store/checkpoint/new_file") {
  TEST_CASE("the name of every directory that is made is forced to the disk, the outermost first") {
    TempDirectory directory;
    FaultyFileSystem files(1000, Fault::kError);
    REQUIRE(make_directories(files, directory / "a/b/").ok());
    CHECK(std::filesystem::is_directory(directory / "a/b"));
    const std::vector<std::string> expected = {
        "sync_directory " + directory.path().filename().string(), "sync_directory a"};
    CHECK(files.log() == expected);
    REQUIRE(make_directories(files, directory / "a/b").ok());
    REQUIRE(make_directories(files, ".").ok());
    CHECK(files.log() == expected);
  }

  TEST_CASE("a directory whose name may not be on the disk is an error") {
    TempDirectory directory;
    FaultyFileSystem files(1, Fault::kError);
    CHECK_FALSE(make_directories(files, directory / "a/b").ok());
  }

  TEST_CASE("a file in the place of a directory is named") {
    TempDirectory directory;
    write_file(directory / "a", "text");
    for (const char* name : {"a", "a/b"}) {
      const Status made = make_directories(posix_file_system(), directory / name);
      REQUIRE_FALSE(made.ok());
      CHECK(made.error().message.find((directory / "a").string() + ": cannot be created") == 0);
    }
  }
}
