#include "store/checkpoint/direct_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> random_bytes(std::mt19937_64& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::vector<std::byte> read_all(const fs::path& path, std::mt19937_64& random) {
  auto reader = DirectReader::open(path);
  REQUIRE(reader.ok());
  std::vector<std::byte> all;
  for (;;) {
    const auto piece = reader->next(1 + random() % (3 << 20));
    REQUIRE(piece.ok());
    if (piece->empty()) return all;
    all.insert(all.end(), piece->begin(), piece->end());
  }
}

// Pieces of every kind: aligned and not aligned in memory, in the file and in size; some are larger
// than the buffer.
void write_in_pieces(const fs::path& path, std::span<const std::byte> bytes,
                     std::mt19937_64& random) {
  auto file = create_direct_file(path);
  REQUIRE(file.ok());
  const DirectBuffer aligned(2 << 20);
  while (!bytes.empty()) {
    const std::size_t units = 1 + random() % 400;
    const std::size_t wanted = random() % 2 == 0 ? units * kDirectAlignment : random() % 100'000;
    auto piece = bytes.first(std::min(wanted, bytes.size()));
    bytes = bytes.subspan(piece.size());
    if (random() % 2 == 0) {
      std::copy(piece.begin(), piece.end(), aligned.bytes().begin());
      piece = aligned.bytes().first(piece.size());
    }
    REQUIRE((*file)->append(piece).ok());
  }
  REQUIRE((*file)->finish().ok());
}

}  // namespace

TEST_SUITE("store/checkpoint/direct_file") {
  TEST_CASE("the file has the bytes of all pieces, in any alignment") {
    // The second directory supports no direct transfers on older systems.
    const es::test::TempDirectory directory;
    std::vector<fs::path> parents{directory.path()};
    std::error_code ignored;
    const fs::path memory = fs::path("/dev/shm") / ("es-direct-" + std::to_string(::getpid()));
    if (fs::create_directory(memory, ignored)) parents.push_back(memory);
    std::mt19937_64 random(es::test::seed("pieces of a direct file"));
    for (int round = 0; round < 12; ++round) {
      const std::size_t size = round < 4 ? round * kDirectAlignment : random() % (5 << 20);
      const auto bytes = random_bytes(random, size);
      for (const fs::path& parent : parents) {
        const fs::path path = parent / std::to_string(round);
        write_in_pieces(path, bytes, random);
        CHECK(read_all(path, random) == bytes);
        CHECK(fs::file_size(path) == size);
      }
    }
    fs::remove_all(memory, ignored);
  }

  TEST_CASE("an existing file is not overwritten, and a missing one is not found") {
    const es::test::TempDirectory directory;
    es::test::write_file(directory / "a", "kept");
    const auto file = create_direct_file(directory / "a");
    REQUIRE_FALSE(file.ok());
    CHECK(file.error().message.find("File exists") != std::string::npos);
    CHECK(es::test::read_file(directory / "a") == "kept");
    CHECK(DirectReader::open(directory / "b").error().kind == ErrorKind::kNotFound);
  }
}

}  // namespace es::store
