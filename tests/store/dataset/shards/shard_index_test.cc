#include "store/dataset/shards/shard_index.h"

#include <doctest/doctest.h>

#include "store/dataset/shards/tar_reader.h"
#include "tests/store/dataset/shards/tar_files.h"
#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  write_file(file, bytes);
}

Result<ShardIndex> index_of(const std::string& tar, KeysInErrors keys = KeysInErrors::kHidden) {
  TempDirectory directory;
  put(directory / "train/0.tar", tar);
  const auto files = shard_files(directory.path());
  REQUIRE(files.ok());
  return index_shards(files->train, 10, keys);
}

std::string error_of(const std::string& tar, KeysInErrors keys = KeysInErrors::kHidden) {
  const auto index = index_of(tar, keys);
  return index.ok() ? "" : index.error().message;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("store/dataset/shards/shard_index") {
  TEST_CASE("samples have the places of their images and their labels") {
    const auto index = index_of(tar_member("x/0.jpg", "image") + tar_member("x/0.cls", " 7\n") +
                                tar_member("x/1.json", R"({"label": 3, "more": [1]})") +
                                tar_member("x/1.txt", "words") + tar_member("x/1.JPEG", "other") +
                                tar_member("y/1.png", "third") + tar_member("y/1.txt", "9") +
                                tar_member("y/1.seg.npy", "?") + tar_end());
    REQUIRE(index.ok());
    REQUIRE(index->samples.size() == 3);
    const auto expect = [&](std::size_t i, std::uint64_t block, std::int32_t label) {
      CHECK(index->samples[i].image_at == (block + 1) * kTarBlockBytes);
      CHECK(index->samples[i].image_bytes == 5);
      CHECK(index->samples[i].label == label);
    };
    expect(0, 0, 7);
    expect(1, 8, 3);
    expect(2, 10, 9);
  }

  TEST_CASE("files without an ending, and hidden ones, belong to no sample") {
    CHECK(error_of(tar_member("README", "text") + tar_member("a/._0.jpg", "?") +
                   tar_member("0.jpg", "image") + tar_member("0.cls", "1") + tar_end())
              .empty());
  }

  TEST_CASE("a sample is in the shard whose numbers include its own") {
    ShardIndex index;
    for (const std::uint64_t end : {2, 2, 5}) index.shards.push_back({.file = {}, .end = end});
    CHECK(&index.shard_of(0) == &index.shards[0]);
    CHECK(&index.shard_of(1) == &index.shards[0]);
    CHECK(&index.shard_of(2) == &index.shards[2]);
    CHECK(&index.shard_of(4) == &index.shards[2]);
  }

  TEST_CASE("samples that are not whole are refused with the block of their first member") {
    const std::string good = tar_member("0.jpg", "image") + tar_member("0.cls", "1");
    const auto refused = [&](const std::string& members, const std::string& text) {
      const std::string error = error_of(good + members + tar_end());
      CAPTURE(error);
      CHECK(mentions(error, "train/0.tar: block 4: " + text));
    };
    refused(tar_member("1.jpg", "image"), "labels of the sample = 0: allowed is a .cls");
    refused(tar_member("1.jpg", "image") + good, "labels of the sample = 0");
    refused(tar_member("1.cls", "1"), "images of the sample = 0: allowed is a .jpg");
    refused(tar_member("1.jpg", "i") + tar_member("1.png", "i") + tar_member("1.cls", "1"),
            "images of the sample = 2");
    refused(tar_member("1.jpg", "i") + tar_member("1.cls", "1") + tar_member("1.cls", "1"),
            "labels of the sample = 2");
    refused(tar_member("1.jpg", "") + tar_member("1.cls", "1"), "bytes of the image = 0");
    refused(tar_member("1.npy", "array"), "images of the sample = 0");
    for (const char* label : {"10", "-1", "", "x", "1.0", "99999999999999999999", "1 2"})
      refused(tar_member("1.jpg", "i") + tar_member("1.cls", label),
              "label is not as it must be: allowed is 0 to 9, as text in .cls or .txt, or in the "
              "field \"label\" of .json");
    refused(tar_member("1.jpg", "i") + tar_member("1.cls", std::string(65, ' ')), "label is not");
    for (const std::string json :
         {"", "3", "{}", R"({"label": "3"})", R"({"label": 10})", R"({"label": 1e0})",
          R"({"label": 18446744073709551615})", R"({"label": 3)"})
      refused(tar_member("1.jpg", "i") + tar_member("1.json", json), "label is not");
    refused(tar_member("1.jpg", "i") + tar_member("1.json", std::string(1000, '[')),
            "label is not");
  }

  TEST_CASE("an error has the key only where its reader may read the file") {
    const std::string tar = tar_member("dir/secret\n.jpg", "image") + tar_end();
    CHECK_FALSE(mentions(error_of(tar), "secret"));
    CHECK(mentions(error_of(tar, KeysInErrors::kShown),
                   R"(block 0, key "dir/secret\x0a": labels of the sample = 0)"));
  }

  TEST_CASE("shards are the files of a directory or the lines of a list") {
    TempDirectory directory;
    const std::string sample = tar_member("0.jpg", "i") + tar_member("0.cls", "1") + tar_end();
    CHECK_FALSE(has_shards(directory.path()));
    CHECK(mentions(shard_files(directory.path()).error().message, "there are no shards"));
    put(directory / "train/b.tar", sample);
    put(directory / "train/a.tar", sample);
    put(directory / "train/a.tar.txt", "no shard");
    put(directory / "eval.txt", "train/b.tar\n" + (directory / "train/a.tar").string() + "\n");
    CHECK(has_shards(directory.path()));
    const auto files = shard_files(directory.path());
    REQUIRE(files.ok());
    REQUIRE(files->train.size() == 2);
    CHECK(files->train[0].name == (directory / "train/a.tar").string());
    REQUIRE(files->eval.size() == 2);
    CHECK(files->eval[0].path == directory / "train/b.tar");
    CHECK(files->eval[1].path == directory / "train/a.tar");
    CHECK(files->eval[1].name == (directory / "eval.txt").string() + ": line 2");
    CHECK(index_shards(files->eval, 10, KeysInErrors::kHidden)->samples.size() == 2);
    put(directory / "train.txt", "a.tar\n");
    CHECK(mentions(shard_files(directory.path()).error().message, "both train/ and train.txt"));
  }

  TEST_CASE("an error about a file of a list has its line and not its name") {
    TempDirectory directory;
    write_file(directory / "train.txt", "secret.tar\n");
    const auto files = shard_files(directory.path());
    REQUIRE(files.ok());
    const auto index = index_shards(files->train, 10, KeysInErrors::kHidden);
    REQUIRE_FALSE(index.ok());
    CHECK(index.error().kind == ErrorKind::kNotFound);
    CHECK(mentions(index.error().message, "train.txt: line 1: No such file"));
    CHECK_FALSE(mentions(index.error().message, "secret"));
    write_file(directory / "train.txt", "\n");
    CHECK(mentions(shard_files(directory.path()).error().message, "line 1: path is not as"));
    write_file(directory / "train.txt", "");
    CHECK(mentions(shard_files(directory.path()).error().message, "number of tar files = 0"));
  }
}
