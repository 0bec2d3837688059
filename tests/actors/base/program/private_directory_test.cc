#include "actors/base/program/private_directory.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/store/temp_directory.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;
using test::TempDirectory;

mode_t mode_of(const fs::path& path) {
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  return info.st_mode & 07777;
}

}  // namespace

TEST_SUITE("actors/base/program/private_directory") {
  // The socket of the head is in a directory above the one of the workers.
  TEST_CASE("all directories that are created on the way are private") {
    TempDirectory directory;
    REQUIRE(make_private_directory(directory / "easyscale/workers/").ok());
    CHECK(mode_of(directory / "easyscale") == 0700);
    CHECK(mode_of(directory / "easyscale/workers") == 0700);
    CHECK(make_private_directory(directory / "easyscale/workers").value() == false);
  }

  TEST_CASE("an existing directory gets the mode, and those above it keep theirs") {
    TempDirectory directory;
    fs::create_directories(directory / "a/b");
    ::chmod((directory / "a").c_str(), 0755);
    ::chmod((directory / "a/b").c_str(), 0755);
    CHECK(make_private_directory(directory / "a/b").value() == true);
    CHECK(make_private_directory(directory / "a/b").value() == false);
    CHECK(mode_of(directory / "a") == 0755);
    CHECK(mode_of(directory / "a/b") == 0700);
  }

  TEST_CASE("a directory that all users share keeps its mode, and a file is refused") {
    TempDirectory directory;
    fs::create_directory(directory / "shared");
    ::chmod((directory / "shared").c_str(), 01777);
    CHECK(make_private_directory(directory / "shared").error().kind == ErrorKind::kRefused);
    CHECK(mode_of(directory / "shared") == 01777);
    test::write_file(directory / "file", "");
    CHECK(make_private_directory(directory / "file").error().kind == ErrorKind::kFailure);
    CHECK(make_private_directory(directory / "file/below").error().kind == ErrorKind::kFailure);
  }
}

}  // namespace es::actors
