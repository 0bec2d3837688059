#include "store/byte_source.h"

#include <doctest/doctest.h>

#include <array>

#include "tests/store/dataset/images/idx_files.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

// The whole content of the file, read in pieces of `piece` bytes.
std::string read_all(const std::filesystem::path& file, std::size_t piece) {
  Result<ByteSource> source = ByteSource::open(file);
  REQUIRE(source.ok());
  std::string all;
  std::vector<std::uint8_t> buffer(piece);
  for (;;) {
    const Result<std::size_t> got = source->read(buffer);
    REQUIRE(got.ok());
    all.append(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*got));
    if (*got < piece) return all;
  }
}

}  // namespace

TEST_SUITE("store/byte_source") {
  TEST_CASE("plain and compressed files give the same bytes, in pieces of any size") {
    TempDirectory directory;
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919);
    write_file(directory / "plain", text);
    write_file(directory / "compressed", gzip(text));
    for (const std::size_t piece : {1000u, 65'536u, 99'999u, 10'000'000u}) {
      CHECK(read_all(directory / "plain", piece) == text);
      CHECK(read_all(directory / "compressed", piece) == text);
    }
  }

  TEST_CASE("an empty file and a file of one byte are plain") {
    TempDirectory directory;
    write_file(directory / "empty", "");
    write_file(directory / "one", "\x1f");
    CHECK(read_all(directory / "empty", 10).empty());
    CHECK(read_all(directory / "one", 10) == "\x1f");
  }

  TEST_CASE("a missing file is not found, and a directory cannot be read") {
    TempDirectory directory;
    const Result<ByteSource> missing = ByteSource::open(directory / "missing");
    REQUIRE_FALSE(missing.ok());
    CHECK(missing.error().kind == ErrorKind::kNotFound);
    const Result<ByteSource> folder = ByteSource::open(directory.path());
    REQUIRE_FALSE(folder.ok());
    CHECK(folder.error().kind == ErrorKind::kFailure);
  }
}
