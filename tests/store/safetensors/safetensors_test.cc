#include "store/safetensors/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>

#include "store/safetensors/header.h"
#include "tests/store/checkpoint/faulty_file_system.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

const float kWeights[] = {1.0F, -2.5F, 0.0F, 3.0F, 4.0F, 5.0F};
const std::int64_t kCount = 17;

std::vector<TensorData> tensors() {
  return {{"fc.weight", "F32", {2, 3}, std::as_bytes(std::span(kWeights))},
          {"empty", "F32", {0, 4}, {}},
          {"bn.num_batches_tracked", "I64", {}, std::as_bytes(std::span(&kCount, 1))}};
}

std::string framed(const std::string& json, const std::string& data = "") {
  std::string bytes(8, '\0');
  const std::uint64_t size = json.size();
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + json + data;
}

}  // namespace

TEST_SUITE("store/safetensors") {
  TEST_CASE("a file that was written is read back, with names, types, shapes and metadata") {
    TempDirectory directory;
    const Metadata metadata{{"format", "pt"}, {"job", "cnn \"1\""}};
    REQUIRE(write_safetensors(posix_file_system(), directory / "w", tensors(), metadata).ok());
    const auto file = SafetensorsFile::open(directory / "w");
    REQUIRE_MESSAGE(file.ok(), (file.ok() ? "" : file.error().message));
    CHECK(file->metadata() == metadata);
    REQUIRE(file->tensors().size() == 3);
    const TensorInfo* weight = file->find("fc.weight");
    REQUIRE(weight != nullptr);
    CHECK(weight->shape == std::vector<std::uint64_t>{2, 3});
    const auto bytes = file->read(*weight);
    REQUIRE(bytes.ok());
    CHECK(std::memcmp(bytes->data(), kWeights, sizeof kWeights) == 0);
    CHECK(file->find("bn.num_batches_tracked")->dtype == "I64");
    CHECK(file->find("nothing") == nullptr);
  }

  TEST_CASE("an open file stays the one that was opened when another one gets its name") {
    TempDirectory directory;
    REQUIRE(write_safetensors(posix_file_system(), directory / "w", tensors(), {}).ok());
    const std::string whole = read_file(directory / "w");
    const auto file = SafetensorsFile::open(directory / "w");
    REQUIRE(file.ok());
    write_file(directory / "other", std::string(whole.size(), '\xff'));
    std::filesystem::rename(directory / "other", directory / "w");
    const auto bytes = file->read(*file->find("fc.weight"));
    REQUIRE(bytes.ok());
    CHECK(std::memcmp(bytes->data(), kWeights, sizeof kWeights) == 0);
    CHECK(file->digest().value() == digest_of(whole));
  }

  TEST_CASE("the bytes of a file are those of the format") {
    TempDirectory directory;
    const std::vector<TensorData> one{{"a", "F32", {2}, std::as_bytes(std::span(kWeights, 2))}};
    REQUIRE(write_safetensors(posix_file_system(), directory / "w", one, {}).ok());
    std::string json = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    json.append((8 - json.size() % 8) % 8, ' ');
    std::string data(8, '\0');
    std::memcpy(data.data(), kWeights, 8);
    CHECK(read_file(directory / "w") == framed(json, data));
  }

  TEST_CASE("inconsistent headers are refused, and the error names the fault") {
    struct Case {
      const char* json;
      const char* expected;
    };
    const Case cases[] = {
        {"[]", "a JSON object"},
        {"{", "a JSON object"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
             "a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         "name twice"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},
             "b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
         "number 2 of its data: allowed are data_offsets that begin"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
         "number 1 of its data: allowed are data_offsets that begin"},
        {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})", "data of 8 bytes"},
        {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "data of 8 bytes"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})",
         "data_offsets as far apart as"},
        {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
         "data_offsets as far apart as"},
        {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,8]}})", "2^62"},
        {R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", "a dtype of safetensors"},
        {R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", "whole numbers"},
        {R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", "whole numbers"},
        {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}})", "two data_offsets"},
        {R"({"a":{"dtype":"F32","shape":[2]}})", "an object of"},
        {R"({"a":7})", "an object of"},
        {R"({"a":[[[[[]]]]]})", "a JSON object"},
        {R"({"__metadata__":{"a":1},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
         "object of texts"},
    };
    TempDirectory directory;
    for (const Case& c : cases) {
      CAPTURE(c.json);
      write_file(directory / "w", framed(c.json, "12345678"));
      const auto file = SafetensorsFile::open(directory / "w");
      REQUIRE_FALSE(file.ok());
      CHECK(file.error().kind == ErrorKind::kUsage);
      CHECK_MESSAGE(file.error().message.find(c.expected) != std::string::npos,
                    file.error().message);
      CHECK(file.error().message.starts_with((directory / "w").string()));
    }
  }

  TEST_CASE("a header that is missing or too large uses no memory") {
    TempDirectory directory;
    for (const std::string& bytes : {std::string(), std::string(7, '\0'), std::string(8, '\xff'),
                                     std::string("\x03\0\0\0\0\0\0\0{}", 10)}) {
      write_file(directory / "w", bytes);
      CHECK(SafetensorsFile::open(directory / "w").error().kind == ErrorKind::kUsage);
    }
    CHECK(SafetensorsFile::open(directory / "none").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("mutated files are refused or read, and never crash the reader") {
    TempDirectory directory;
    REQUIRE(write_safetensors(posix_file_system(), directory / "w", tensors(), {{"k", "v"}}).ok());
    const std::string whole = read_file(directory / "w");
    std::mt19937_64 random(seed("safetensors mutations"));
    for (int i = 0; i < 5000; ++i) {
      write_file(directory / "m", mutate(whole, random));
      const auto file = SafetensorsFile::open(directory / "m");
      if (!file.ok()) continue;
      for (const TensorInfo& tensor : file->tensors()) CHECK(file->read(tensor).ok());
    }
  }

  TEST_CASE("a file is written whole or not at all, and replaces nothing") {
    TempDirectory directory;
    FaultyFileSystem whole(1000, Fault::kError);
    REQUIRE(write_safetensors(whole, directory / "w", tensors(), {}).ok());
    // After the file has its name, which no operation of the interface gives it.
    CHECK(whole.log().back() == "sync_directory " + directory.path().filename().string());
    std::filesystem::remove(directory / "w");
    for (int fail_at = 0; fail_at < std::ssize(whole.log()); ++fail_at) {
      FaultyFileSystem files(fail_at, Fault::kError);
      CHECK_FALSE(write_safetensors(files, directory / "w", tensors(), {}).ok());
      CHECK(std::filesystem::is_empty(directory.path()));
    }
    REQUIRE(write_safetensors(posix_file_system(), directory / "w", tensors(), {}).ok());
    CHECK(write_safetensors(posix_file_system(), directory / "w", tensors(), {}).error().kind ==
          ErrorKind::kRefused);
    write_file(directory / "v.partial", "mine");
    std::filesystem::create_symlink(directory / "v.partial", directory / "link");
    CHECK_FALSE(write_safetensors(posix_file_system(), directory / "link", tensors(), {}).ok());
    REQUIRE(write_safetensors(posix_file_system(), directory / "v", tensors(), {}).ok());
    CHECK(read_file(directory / "v.partial") == "mine");
  }

  TEST_CASE("data that do not fit their shape, and repeated names, are not written") {
    TempDirectory directory;
    auto wrong = tensors();
    wrong[0].shape = {7};
    CHECK(write_safetensors(posix_file_system(), directory / "w", wrong, {}).error().kind ==
          ErrorKind::kUsage);
    auto twice = tensors();
    twice.push_back(twice.front());
    CHECK_FALSE(write_safetensors(posix_file_system(), directory / "w", twice, {}).ok());
  }
}
