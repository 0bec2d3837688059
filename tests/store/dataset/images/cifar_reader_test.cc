#include "store/dataset/images/cifar_reader.h"

#include <doctest/doctest.h>

#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

// Byte b of plane c of record r is (r + 3 c + b) mod 256. The label is r mod 10.
std::string records(int first, int count) {
  std::string bytes;
  for (int r = first; r < first + count; ++r) {
    bytes += static_cast<char>(r % 10);
    for (int c = 0; c < 3; ++c)
      for (int b = 0; b < 1024; ++b) bytes += static_cast<char>(r + 3 * c + b);
  }
  return bytes;
}

void write_set(const TempDirectory& directory) {
  for (int i = 1; i <= 5; ++i)
    write_file(directory / ("data_batch_" + std::to_string(i) + ".bin"), records(i * 4, 4));
  write_file(directory / "test_batch.bin", records(2, 3));
}

std::string error_of(const TempDirectory& directory, std::uint32_t classes = 10) {
  const auto dataset = read_cifar_dataset(directory.path(), classes);
  return dataset.ok() ? "" : dataset.error().message;
}

bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("store/dataset/images/cifar_reader") {
  TEST_CASE("planes become pixels, and the five files follow each other") {
    TempDirectory directory;
    write_set(directory);
    const auto dataset = read_cifar_dataset(directory.path(), 10);
    REQUIRE(dataset.ok());
    CHECK(dataset->shape == ImageShape{32, 32, 3});
    CHECK(dataset->train.count() == 20);
    CHECK(dataset->eval.labels == std::vector<std::int32_t>{2, 3, 4});
    CHECK(dataset->train.labels[19] == 3);  // Record 23.
    const auto image = dataset->image(dataset->train, 19);
    CHECK(image[0] == 23);
    CHECK(image[1] == 26);
    CHECK(image[3 * 1023 + 2] == std::uint8_t(23 + 6 + 1023));
  }

  TEST_CASE("a missing file or directory is named") {
    TempDirectory directory;
    write_set(directory);
    std::filesystem::remove(directory / "data_batch_4.bin");
    CHECK(mentions(error_of(directory), "data_batch_4.bin"));
    const auto none = read_cifar_dataset(directory / "none", 10);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a file that is not a whole number of records is refused") {
    TempDirectory directory;
    for (const std::size_t size : {0, 1, 3072, 3074, 6145}) {
      write_set(directory);
      write_file(directory / "test_batch.bin", records(0, 4).substr(0, size));
      CHECK(
          mentions(error_of(directory), "test_batch.bin: size in bytes = " + std::to_string(size)));
    }
  }

  TEST_CASE("a label out of range is refused with its file and record") {
    TempDirectory directory;
    write_set(directory);
    CHECK(mentions(error_of(directory, 5),
                   "data_batch_1.bin: label of record 1 is not as it must be: allowed is 0 to 4"));
    std::string bytes = records(0, 3);
    bytes[2 * 3073] = '\xff';
    write_file(directory / "test_batch.bin", bytes);
    CHECK(mentions(error_of(directory),
                   "test_batch.bin: label of record 2 is not as it must be: allowed is 0 to 9"));
  }
}
