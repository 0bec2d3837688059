#include "store/dataset/shards/shard_index_file.h"

#include <doctest/doctest.h>

#include <chrono>

#include "store/dataset/shards/shard_index.h"
#include "tests/store/dataset/shards/tar_files.h"
#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

namespace fs = std::filesystem;

// A directory with one shard.
struct OneShard {
  OneShard() {
    fs::create_directories(directory / "train");
    write_file(tar, content(0));
    files = shard_files(directory.path())->train;
  }
  // Two samples, the first of which has this label.
  static std::string content(int label) {
    return tar_member("0.jpg", "image") + tar_member("0.cls", std::to_string(label)) +
           tar_member("1.jpg", "other") + tar_member("1.cls", "2") + tar_end();
  }
  Result<ShardIndex> read(IndexFiles index_files = IndexFiles::kUsed,
                          std::uint32_t classes = 10) const {
    return index_shards(files, classes, KeysInErrors::kHidden, index_files);
  }
  void write_index() const {
    const ShardIndex index = *read(IndexFiles::kIgnored);
    REQUIRE(
        write_shard_index(posix_file_system(), files[0], index.shards[0].state, index.samples_of(0))
            .ok());
  }
  // Writes other labels into the index, so that a test sees which of the two was read.
  void write_false_index() const {
    const ShardIndex index = *read(IndexFiles::kIgnored);
    std::vector<ShardSample> samples = index.samples;
    samples[0].label = 7;
    REQUIRE(write_shard_index(posix_file_system(), files[0], index.shards[0].state, samples).ok());
  }
  int first_label(std::uint32_t classes = 10) const {
    const auto index = read(IndexFiles::kUsed, classes);
    REQUIRE_MESSAGE(index.ok(), (index.ok() ? "" : index.error().message));
    REQUIRE(index->samples.size() == 2);
    return index->samples[0].label;
  }

  TempDirectory directory;
  fs::path tar = directory / "train/0.tar";
  std::vector<ShardFile> files;
};

}  // namespace

TEST_SUITE("store/dataset/shards/shard_index_file") {
  TEST_CASE("samples from an index file are those of the headers") {
    const OneShard shard;
    const ShardIndex scanned = *shard.read();
    shard.write_index();
    CHECK(fs::exists(shard.directory / "train/0.tar.index"));
    const ShardIndex read = *shard.read();
    CHECK(read.samples == scanned.samples);
    CHECK(read.shards[0].state == scanned.shards[0].state);
    shard.write_index();  // it may be written again
    CHECK(shard.read()->samples == scanned.samples);
  }

  TEST_CASE("an index file takes the place of the headers, unless it is to be ignored") {
    const OneShard shard;
    shard.write_false_index();
    CHECK(shard.first_label() == 7);
    CHECK(shard.read(IndexFiles::kIgnored)->samples[0].label == 0);
    // A label that the model does not have is looked up again.
    CHECK(shard.first_label(5) == 0);
  }

  TEST_CASE("an index file of another size, time or content is not used") {
    const OneShard shard;
    shard.write_false_index();
    const auto time = fs::last_write_time(shard.tar);
    write_file(shard.tar, OneShard::content(0) + std::string(512, '\0'));
    fs::last_write_time(shard.tar, time);
    CHECK(shard.first_label() == 0);

    write_file(shard.tar, OneShard::content(0));
    fs::last_write_time(shard.tar, time);
    CHECK(shard.first_label() == 7);
    fs::last_write_time(shard.tar, time + std::chrono::seconds(1));
    CHECK(shard.first_label() == 0);

    std::string other = OneShard::content(0);
    other[520] ^= 1;  // in the first image
    write_file(shard.tar, other);
    fs::last_write_time(shard.tar, time);
    CHECK(shard.first_label() == 0);
  }

  TEST_CASE("a damaged index file is not used, whatever is damaged") {
    const OneShard shard;
    shard.write_false_index();
    const fs::path file = shard.directory / "train/0.tar.index";
    const std::string whole = read_file(file);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
      write_file(file, damaged);
      CHECK(shard.first_label() == 0);
    }
    for (const std::size_t size : {std::size_t{0}, std::size_t{47}, whole.size() - 1}) {
      write_file(file, whole.substr(0, size));
      CHECK(shard.first_label() == 0);
    }
    write_file(file, whole + "x");
    CHECK(shard.first_label() == 0);
    write_file(file, whole);
    CHECK(shard.first_label() == 7);
  }

  TEST_CASE("places outside of the tar file are refused") {
    const ShardState state{.bytes = 4096, .changed_ns = 1, .edges = digest_of("x")};
    const auto accepted = [&](const ShardSample& sample) {
      const auto bytes = shard_index_bytes(state, std::span(&sample, 1));
      const std::span<const std::uint8_t> content(
          reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      return parse_shard_index(content, state).has_value();
    };
    CHECK(accepted({512, 100, 0}));
    CHECK(accepted({3584, 512, 0}));
    CHECK_FALSE(accepted({0, 100, 0}));
    CHECK_FALSE(accepted({513, 100, 0}));
    CHECK_FALSE(accepted({3584, 513, 0}));
    CHECK_FALSE(accepted({4096, 1, 0}));
    CHECK_FALSE(accepted({512, 0, 0}));
    CHECK_FALSE(accepted({512, 100, -1}));
    CHECK_FALSE(accepted({~std::uint64_t{511}, 512, 0}));
  }
}
