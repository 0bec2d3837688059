#include "store/dataset/arrays/npz_file.h"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::store {
namespace {

const std::vector<float> kFew{1.5F, -2, 0, 7, 8, 9};
const std::vector<float> kMany(100'000, 0.25F);

std::vector<NpzArray> arrays() {
  return {{"few", {2, 3}, kFew}, {"many", {100'000}, kMany}};
}

std::vector<float> read_all(const NpyFile& file) {
  std::vector<std::uint8_t> bytes(file.header().bytes());
  REQUIRE(file.read(0, bytes).ok());
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

TEST_SUITE("store/dataset/arrays") {
  TEST_CASE("arrays are read as they were written") {
    const test::TempDirectory directory;
    const auto file = directory.path() / "a.npz";
    REQUIRE(write_npz(file, arrays()).ok());
    const auto archive = NpzFile::open(file);
    REQUIRE(archive.ok());
    const auto few = archive->unpack("few");
    REQUIRE(few.ok());
    CHECK(few->header().shape == std::vector<std::uint64_t>{2, 3});
    CHECK(few->header().data_at % 64 == 0);
    CHECK(read_all(*few) == kFew);
    const auto many = archive->unpack("many");
    REQUIRE(many.ok());
    CHECK(read_all(*many) == kMany);
    CHECK(archive->unpack("none").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("equal arrays give equal files, and no file is replaced") {
    const test::TempDirectory directory;
    const auto first = directory.path() / "a.npz", second = directory.path() / "b.npz";
    REQUIRE(write_npz(first, arrays()).ok());
    REQUIRE(write_npz(second, arrays()).ok());
    CHECK(test::read_file(first) == test::read_file(second));
    const std::vector<NpzArray> other{{"few", {6}, kFew}};
    CHECK(write_npz(first, other).error().kind == ErrorKind::kRefused);
    CHECK(test::read_file(first) == test::read_file(second));
    CHECK(write_npz(directory.path() / "none" / "a.npz", other).error().kind ==
          ErrorKind::kFailure);
  }

  TEST_CASE("a file that is no archive, or none at all, is an error that names it") {
    const test::TempDirectory directory;
    const auto file = directory.path() / "a.npz";
    CHECK(NpzFile::open(file).error().kind == ErrorKind::kNotFound);
    test::write_file(file, "no archive");
    const auto opened = NpzFile::open(file);
    REQUIRE_FALSE(opened.ok());
    CHECK(opened.error().kind == ErrorKind::kUsage);
    CHECK(opened.error().message.starts_with(file.string()));
  }

  TEST_CASE("a thousand mutated archives are refused or read") {
    std::mt19937_64 random(test::seed("npz mutations"));
    const test::TempDirectory directory;
    const std::vector<NpzArray> small{{"few", {2, 3}, kFew}};
    REQUIRE(write_npz(directory / "whole.npz", small).ok());
    const std::string whole = test::read_file(directory / "whole.npz");
    int refused = 0;
    for (int round = 0; round < 1000; ++round) {
      test::write_file(directory / "mutated.npz", test::mutate(whole, random));
      const auto archive = NpzFile::open(directory / "mutated.npz");
      if (!archive || !archive->unpack("few")) ++refused;
    }
    CHECK(refused > 500);
  }
}

}  // namespace es::store
