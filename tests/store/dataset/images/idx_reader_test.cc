#include "store/dataset/images/idx_reader.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>

#include "store/byte_source.h"
#include "tests/store/dataset/images/idx_files.h"
#include "tests/store/mutate.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

bool mentions(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

// Reads the set and expects an error of `kind` whose message holds all `parts`.
void check_refused(const TempDirectory& directory, ErrorKind kind,
                   const std::vector<std::string>& parts, std::uint32_t classes = 3) {
  const Result<ImageDataset> dataset = read_idx_dataset(directory.path(), classes);
  REQUIRE_FALSE(dataset.ok());
  CHECK(dataset.error().kind == kind);
  for (const std::string& part : parts) {
    CAPTURE(dataset.error().message);
    CHECK(mentions(dataset.error().message, part));
  }
}

void check_small_set(const ImageDataset& dataset) {
  CHECK(dataset.shape == ImageShape{3, 5, 1});
  CHECK(dataset.classes == 3);
  CHECK(dataset.train.count() == 6);
  CHECK(dataset.eval.count() == 4);
  CHECK(dataset.train.labels == std::vector<std::int32_t>{0, 1, 2, 0, 1, 2});
  CHECK(dataset.image(dataset.train, 5)[14] == 7 * 5 + 14);
  CHECK(dataset.image(dataset.eval, 3)[0] == 7 * 3);
}

}  // namespace

TEST_SUITE("store/dataset/images/idx_reader") {
  TEST_CASE("plain and compressed files give the same dataset") {
    TempDirectory directory;
    write_idx_set(directory.path(), small_idx_set());
    check_small_set(*read_idx_dataset(directory.path(), 3));
    const auto files = small_idx_set();
    for (std::size_t i = 0; i < 4; ++i) {
      std::filesystem::remove(directory / kIdxNames[i]);
      write_file(directory / (std::string(kIdxNames[i]) + ".gz"), gzip(files[i]));
    }
    check_small_set(*read_idx_dataset(directory.path(), 3));
  }

  TEST_CASE("a missing directory or file is not found, and named") {
    TempDirectory directory;
    const Result<ImageDataset> none = read_idx_dataset(directory / "nowhere", 3);
    REQUIRE_FALSE(none.ok());
    CHECK(none.error().kind == ErrorKind::kNotFound);
    CHECK(mentions(none.error().message, "data.path"));
    for (const char* name : kIdxNames) {
      write_idx_set(directory.path(), small_idx_set());
      std::filesystem::remove(directory / name);
      check_refused(directory, ErrorKind::kNotFound, {name});
    }
  }

  TEST_CASE("a wrong magic number is refused with the value that is allowed") {
    TempDirectory directory;
    auto files = small_idx_set();
    files[0].replace(0, 4, big_endian(0x801));
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage,
                  {kIdxNames[0], "magic number is not as it must be", "0x00000803"});
  }

  TEST_CASE("counts of images and labels that differ are refused") {
    TempDirectory directory;
    auto files = small_idx_set();
    files[1] = idx_labels(5, 3);
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage, {kIdxNames[1], "count = 5", "6", kIdxNames[0]});
  }

  TEST_CASE("evaluation images of another shape are refused") {
    TempDirectory directory;
    auto files = small_idx_set();
    files[2] = idx_images(4, 5, 3);
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage, {kIdxNames[2], "5x3", "3x5"});
  }

  TEST_CASE("a file that is cut at any byte is refused") {
    TempDirectory directory;
    for (std::size_t file = 0; file < 4; ++file) {
      auto files = small_idx_set();
      const std::string whole = files[file];
      for (std::size_t size = 0; size < whole.size(); ++size) {
        files[file] = whole.substr(0, size);
        write_idx_set(directory.path(), files);
        check_refused(directory, ErrorKind::kUsage, {kIdxNames[file]});
      }
    }
  }

  TEST_CASE("bytes after the end are refused") {
    TempDirectory directory;
    auto files = small_idx_set();
    files[3] += '\0';
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage, {kIdxNames[3], "bytes after the header", "4"});
  }

  TEST_CASE("a label that is not below the number of classes is refused") {
    TempDirectory directory;
    write_idx_set(directory.path(), small_idx_set());
    check_refused(directory, ErrorKind::kUsage,
                  {kIdxNames[1], "label 2 is not as it must be", "0 to 1", "model.classes = 2"}, 2);
  }

  TEST_CASE("impossible sizes in a header are refused before memory is allocated for them") {
    TempDirectory directory;
    auto files = small_idx_set();
    files[0].replace(4, 4, big_endian(0xffffffff));
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage, {"count is not as it must be", "10000000"});
    files[0] = idx_header({10'000'000, 4096, 4096});
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage, {"size of all images"});
    files[0] = idx_header({4, 0, 5});
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage, {"height is not as it must be", "1 to 4096"});
  }

  TEST_CASE("a compressed file that is cut, changed or followed by bytes is refused") {
    TempDirectory directory;
    write_idx_set(directory.path(), small_idx_set());
    const std::string whole = gzip(small_idx_set()[0]);
    for (std::size_t size = 2; size < whole.size(); ++size) {
      write_file(directory / kIdxNames[0], whole.substr(0, size));
      check_refused(directory, ErrorKind::kUsage, {kIdxNames[0], "compressed data"});
    }
    write_file(directory / kIdxNames[0], whole + "x");
    check_refused(directory, ErrorKind::kUsage, {"is followed by other bytes"});
    std::string wrong_checksum = whole;
    wrong_checksum[whole.size() - 8] ^= 1;
    write_file(directory / kIdxNames[0], wrong_checksum);
    check_refused(directory, ErrorKind::kUsage, {"is damaged"});
  }

  TEST_CASE("a small file that decompresses to much more than its header says is refused") {
    TempDirectory directory;
    auto files = small_idx_set();
    files[0] = gzip(files[0] + std::string(64 << 20, '\0'));
    write_idx_set(directory.path(), files);
    check_refused(directory, ErrorKind::kUsage, {"bytes after the header = more", "90"});
  }

  TEST_CASE("ten thousand mutated files give a consistent dataset or one error") {
    TempDirectory directory;
    std::mt19937_64 random(seed("idx mutations"));
    const auto files = small_idx_set();
    write_idx_set(directory.path(), files);
    int accepted = 0;
    for (int round = 0; round < 10'000; ++round) {
      const std::size_t file = random() % 4;
      const std::string plain = mutate(files[file], random);
      write_file(directory / kIdxNames[file],
                 random() % 2 == 0 ? plain : mutate(gzip(files[file]), random));
      const Result<ImageDataset> dataset = read_idx_dataset(directory.path(), 3);
      write_file(directory / kIdxNames[file], files[file]);
      if (!dataset.ok()) {
        REQUIRE(mentions(dataset.error().message, directory.path().string()));
        continue;
      }
      ++accepted;
      for (const ImageSet* set : {&dataset->train, &dataset->eval}) {
        REQUIRE(set->pixels.size() == set->count() * dataset->shape.pixel_bytes());
        for (const std::int32_t label : set->labels) REQUIRE((label >= 0 && label < 3));
      }
    }
    CHECK(accepted > 0);
  }

  TEST_CASE("the published files of Fashion-MNIST are read") {
    const char* override_path = std::getenv("ES_FASHION_MNIST");
    const std::filesystem::path path =
        override_path != nullptr ? override_path : "/usr/share/datasets/fashion-mnist";
    if (!std::filesystem::is_directory(path)) {
      MESSAGE("skipped: Fashion-MNIST is not at " << path.string() << " (set ES_FASHION_MNIST)");
      return;
    }
    const Result<ImageDataset> dataset = read_idx_dataset(path, 10);
    REQUIRE_MESSAGE(dataset.ok(), (dataset.ok() ? "" : dataset.error().message));
    CHECK(dataset->shape == ImageShape{28, 28, 1});
    CHECK(dataset->train.count() == 60'000);
    CHECK(dataset->eval.count() == 10'000);
    for (std::int32_t label = 0; label < 10; ++label) {
      CHECK(std::count(dataset->train.labels.begin(), dataset->train.labels.end(), label) == 6000);
      CHECK(std::count(dataset->eval.labels.begin(), dataset->eval.labels.end(), label) == 1000);
    }
    CHECK(dataset->train.labels[0] == 9);  // It is an ankle boot.
  }
}
