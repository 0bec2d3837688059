#include "store/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include "tests/store/checkpoint/faulty_file_system.h"
#include "tests/store/checkpoint/sample_checkpoint.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

constexpr const char* kFiles[] = {"manifest", "job.toml", "data"};

// More than one block, blocks that are not full, and an empty section.
SampleCheckpoint sample() {
  return SampleCheckpoint({{"parameters", (2 << 20) + 12'345},
                           {"optimizer", 1 << 20},
                           {"context/0", 777},
                           {"context/1", 0},
                           {"context/2", 1}});
}

// The error of reading all of a checkpoint that must not be readable.
Error damage_found(const std::filesystem::path& directory) {
  const Result<CheckpointReader> reader = CheckpointReader::open(directory);
  if (!reader.ok()) return reader.error();
  const Status status = reader->verify();
  REQUIRE_FALSE(status.ok());
  return status.error();
}

std::size_t entries(const std::filesystem::path& directory) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    (void)entry;
    ++count;
  }
  return count;
}

}  // namespace

TEST_SUITE("store/checkpoint/checkpoint") {
  TEST_CASE("sections that were written are read back") {
    TempDirectory directory;
    const SampleCheckpoint original = sample();
    REQUIRE(original.write(directory / "v120").ok());
    CHECK(original.is_in(directory / "v120"));
    CHECK(entries(directory.path()) == 1);
  }

  TEST_CASE("a section is read into memory of the caller only when the size fits") {
    TempDirectory directory;
    const SampleCheckpoint original = sample();
    REQUIRE(original.write(directory / "v120").ok());
    const auto reader = CheckpointReader::open(directory / "v120");
    REQUIRE(reader.ok());
    std::vector<std::byte> context(777);
    REQUIRE(reader->read_into("context/0", context).ok());
    CHECK(context == original.contents[2].second);
    context.resize(778);
    const Status status = reader->read_into("context/0", context);
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().message.find("bytes = 777: allowed is 778") != std::string::npos);
    CHECK(reader->find("context/9") == nullptr);
    CHECK(reader->read("context/9").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("every flipped bit is found") {
    TempDirectory directory;
    REQUIRE(sample().write(directory / "v120").ok());
    std::mt19937_64 random(seed("checkpoint bit flips"));
    for (int round = 0; round < 2000; ++round) {
      const char* name = kFiles[round % 3];
      const std::filesystem::path file = directory / "v120" / name;
      const std::uint64_t offset = random() % std::filesystem::file_size(file);
      const int bit = static_cast<int>(random() % 8);
      flip_bit(file, offset, bit);
      CAPTURE(name);
      CAPTURE(offset);
      const Error error = damage_found(directory / "v120");
      CHECK(error.kind == ErrorKind::kUsage);
      CHECK(error.message.find(file.string()) != std::string::npos);
      flip_bit(file, offset, bit);
    }
    CHECK(sample().is_in(directory / "v120"));
  }

  TEST_CASE("damage names the section and the block") {
    TempDirectory directory;
    REQUIRE(sample().write(directory / "v120").ok());
    flip_bit(directory / "v120/data", (1 << 20) + 5, 0);
    const Error error = damage_found(directory / "v120");
    CHECK(error.message.find("section \"parameters\", block 1") != std::string::npos);
    const auto reader = CheckpointReader::open(directory / "v120");
    CHECK_FALSE(reader->read("parameters").ok());
    CHECK(reader->read("optimizer").ok());
  }

  TEST_CASE("every file that is cut or extended is found") {
    TempDirectory directory;
    REQUIRE(sample().write(directory / "v120").ok());
    for (const char* name : kFiles) {
      const std::filesystem::path file = directory / "v120" / name;
      const std::string whole = read_file(file);
      for (std::size_t size = 0; size < whole.size(); size += 4096) {
        std::filesystem::resize_file(file, size);
        CHECK(damage_found(directory / "v120").kind == ErrorKind::kUsage);
        if (size % (64 * 4096) == 0) write_file(file, whole);
      }
      write_file(file, whole.substr(0, whole.size() - 1));
      CHECK(damage_found(directory / "v120").kind == ErrorKind::kUsage);
      write_file(file, whole + '\0');
      CHECK(damage_found(directory / "v120").kind == ErrorKind::kUsage);
      write_file(file, whole);
    }
    CHECK(sample().is_in(directory / "v120"));
  }

  TEST_CASE("a missing checkpoint and a missing file are not found, and the error names them") {
    TempDirectory directory;
    CHECK(CheckpointReader::open(directory / "none").error().kind == ErrorKind::kNotFound);
    for (const char* name : kFiles) {
      REQUIRE(sample().write(directory / "v120").ok());
      std::filesystem::remove(directory / "v120" / name);
      const auto reader = CheckpointReader::open(directory / "v120");
      REQUIRE_FALSE(reader.ok());
      CHECK(reader.error().kind == ErrorKind::kNotFound);
      CHECK(reader.error().message.find(name) != std::string::npos);
      std::filesystem::remove_all(directory / "v120");
    }
  }

  TEST_CASE("an existing name is refused, and its files do not change") {
    TempDirectory directory;
    REQUIRE(sample().write(directory / "v120").ok());
    const SampleCheckpoint other({{"parameters", 10}});
    const Status status = other.write(directory / "v120/");
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::kRefused);
    CHECK(sample().is_in(directory / "v120"));
    CHECK(entries(directory.path()) == 1);
  }

  TEST_CASE("a parent that does not exist is not found") {
    TempDirectory directory;
    const Status status = sample().write(directory / "none/v120");
    REQUIRE_FALSE(status.ok());
    CHECK(status.error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("names of jobs and sections that the manifest cannot hold are refused") {
    TempDirectory directory;
    SampleCheckpoint bad_job = sample();
    bad_job.head.job_name = "two\nlines";
    CHECK(bad_job.write(directory / "a").error().kind == ErrorKind::kUsage);
    for (const char* name : {"", "a b", "parameters"}) {
      const SampleCheckpoint bad({{"parameters", 10}, {name, 10}});
      CHECK(bad.write(directory / "a").error().kind == ErrorKind::kUsage);
    }
    CHECK(entries(directory.path()) == 0);
  }

  TEST_CASE("an error of any single operation leaves no file behind") {
    const SampleCheckpoint original = sample();
    for (int fail_at = 0;; ++fail_at) {
      TempDirectory directory;
      FaultyFileSystem files(fail_at, Fault::kError);
      const Status status = original.write(directory / "v120", files);
      if (status.ok()) {
        CHECK(fail_at == 18);  // This is beyond the last operation.
        CHECK(original.is_in(directory / "v120"));
        break;
      }
      CHECK(status.error().message.find("No space left on device") != std::string::npos);
      CHECK(entries(directory.path()) == 0);
    }
  }

  TEST_CASE("death between any two operations leaves no checkpoint or a complete one") {
    const SampleCheckpoint original = sample();
    int visible = 0;
    for (int fail_at = 0; fail_at < 18; ++fail_at) {
      TempDirectory directory;
      FaultyFileSystem files(fail_at, Fault::kDeath);
      CHECK_FALSE(original.write(directory / "v120", files).ok());
      if (!std::filesystem::exists(directory / "v120")) continue;
      ++visible;
      CHECK(original.is_in(directory / "v120"));
    }
    CHECK(visible == 1);  // Between the rename and the sync of the parent.
  }

  TEST_CASE("the remains of a killed writer do not block the next writer") {
    TempDirectory directory;
    FaultyFileSystem files(5, Fault::kDeath);
    REQUIRE_FALSE(sample().write(directory / "v120", files).ok());
    CHECK(entries(directory.path()) == 1);
    REQUIRE(sample().write(directory / "v120").ok());
    CHECK(sample().is_in(directory / "v120"));
  }

  TEST_CASE("all contents are on the disk before the rename, and the name after it") {
    TempDirectory directory;
    FaultyFileSystem files(1000, Fault::kError);
    REQUIRE(SampleCheckpoint({{"parameters", 10}}).write(directory / "v120", files).ok());
    std::vector<std::string> log = files.log();
    REQUIRE(log.size() == 13);
    CHECK(log[10].starts_with("sync_directory .v120.partial-"));
    log[10] = "sync_directory partial";
    const std::vector<std::string> expected = {
        "make_directory .v120.partial-",
        "create data",
        "append data",
        "finish data",
        "create job.toml",
        "append job.toml",
        "finish job.toml",
        "create manifest",
        "append manifest",
        "finish manifest",
        "sync_directory partial",
        "rename v120",
        "sync_directory " + directory.path().filename().string()};
    CHECK(log == expected);
  }

  TEST_CASE("a draft takes the first free name, and is read back before it is published") {
    TempDirectory directory;
    REQUIRE(sample().write(directory / "v").ok());
    const SampleCheckpoint other({{"parameters", (1 << 20) + 1}, {"context/0", 5}});
    const auto all = other.sections();
    auto draft = CheckpointDraft::write(posix_file_system(), directory / "v",
                                        {other.head, other.job_toml, all});
    REQUIRE(draft.ok());
    CHECK(draft->verify().ok());
    CHECK(draft->publish(directory / "v").error().kind == ErrorKind::kRefused);
    CHECK(draft->publish(directory / "v-2").ok());
    CHECK(sample().is_in(directory / "v"));
    CHECK(other.is_in(directory / "v-2"));
    CHECK(entries(directory.path()) == 2);
  }

  TEST_CASE("a draft that is not published leaves no file, and damage in it is found") {
    TempDirectory directory;
    const SampleCheckpoint original = sample();
    const auto all = original.sections();
    {
      const auto draft = CheckpointDraft::write(posix_file_system(), directory / "v",
                                                {original.head, original.job_toml, all});
      REQUIRE(draft.ok());
      const auto partial = *std::filesystem::directory_iterator(directory.path());
      flip_bit(partial.path() / "data", (3 << 20) + 12'345 + 700, 3);
      const Status whole = draft->verify();
      REQUIRE_FALSE(whole.ok());
      CHECK(whole.error().message.find("section \"context/0\", block 0") != std::string::npos);
    }
    CHECK(entries(directory.path()) == 0);
  }

  TEST_CASE("the digests of the head may be computed while the sections are read") {
    TempDirectory directory;
    const SampleCheckpoint original = sample();
    const auto all = original.sections();
    CheckpointHead head = original.head;
    head.params_digest = head.state_digest = {};
    REQUIRE(write_checkpoint(posix_file_system(), directory / "v",
                             {head, original.job_toml, all,
                              [&](CheckpointHead& last) {
                                last = original.head;
                                return Status();
                              }})
                .ok());
    CHECK(original.is_in(directory / "v"));
  }

  TEST_CASE("bytes that are missing or differ from the intended ones make no checkpoint") {
    TempDirectory directory;
    const SampleCheckpoint original = sample();
    auto all = original.sections();
    const auto refuse = [](CheckpointHead&) { return Status(failure("other parameters")); };
    const CheckpointContents unwanted{original.head, original.job_toml, all, refuse};
    CHECK(write_checkpoint(posix_file_system(), directory / "v", unwanted).error().message ==
          "other parameters");
    all[2].read = [](std::uint64_t, std::span<std::byte>) { return Status(failure("gone")); };
    CHECK(write_checkpoint(posix_file_system(), directory / "v",
                           {original.head, original.job_toml, all})
              .error()
              .message == "gone");
    CHECK(entries(directory.path()) == 0);
  }
}
