#include "store/checkpoint/catalog.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "tests/store/checkpoint/faulty_file_system.h"
#include "tests/store/checkpoint/sample_checkpoint.h"
#include "tests/store/temp_directory.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

namespace fs = std::filesystem;

void write(const fs::path& directory, Version version, const std::string& job = "cnn") {
  SampleCheckpoint sample({{"params", 5000}});
  sample.head.job_name = job;
  sample.head.version = version;
  fs::create_directories(directory.parent_path());
  REQUIRE(sample.write(directory).ok());
}

std::vector<std::string> names(const std::vector<CatalogEntry>& entries) {
  std::vector<std::string> list;
  for (const CatalogEntry& entry : entries) list.push_back(entry.directory.filename().string());
  return list;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_SUITE("store/checkpoint/catalog") {
  TEST_CASE("checkpoints are found in a directory, in its directories, or are it") {
    TempDirectory directory;
    write(directory / "cnn-1/step-100", 100);
    write(directory / "cnn-1/step-20", 20);
    write(directory / "mine", 7);
    fs::create_directories(directory / "a/b/c");
    write(directory / "a/b/c/too-deep", 1);
    fs::create_directories(directory / ".step-3.partial-1-0");
    write_file(directory / ".step-3.partial-1-0/data", "x");
    const auto entries = list_checkpoints(directory.path(), true);
    REQUIRE(entries.ok());
    CHECK(names(*entries) == Names{"mine", "step-20", "step-100"});
    CHECK((*entries)[2].head->version == 100);
    CHECK((*entries)[2].bytes > 5000);
    CHECK((*entries)[2].damage.empty());
    CHECK(names(*list_checkpoints(directory / "mine/", false)) == Names{"mine"});
    CHECK(list_checkpoints(directory / "nowhere", false).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a damaged one is listed with what is wrong, by file and block") {
    TempDirectory directory;
    write(directory / "step-1", 1);
    write(directory / "step-2", 2);
    write(directory / "step-3", 3);
    flip_bit(directory / "step-1/data", 3000, 2);
    fs::remove(directory / "step-2/manifest");
    const auto quick = list_checkpoints(directory.path(), false);
    CHECK((*quick)[1].damage.empty());  // step-1: the manifest alone is whole
    const auto entries = list_checkpoints(directory.path(), true);
    REQUIRE(entries->size() == 3);
    CHECK((*entries)[0].damage.find("step-2/manifest") != std::string::npos);
    CHECK_FALSE((*entries)[0].head.has_value());
    CHECK((*entries)[1].damage.find("step-1/data: damaged: section \"params\", block 0") !=
          std::string::npos);
    CHECK((*entries)[2].damage.empty());
  }

  TEST_CASE("the newest undamaged ones of each job and directory stay") {
    TempDirectory directory;
    for (Version v = 1; v <= 5; ++v) write(directory / ("a/step-" + std::to_string(v)), v);
    write(directory / "a/other-1", 1, "other");
    write(directory / "b/step-1", 1);
    flip_bit(directory / "a/step-5/data", 0, 0);
    const auto entries = list_checkpoints(directory.path(), true);
    Names gone;
    for (const std::size_t i : beyond_newest(*entries, 2))
      gone.push_back((*entries)[i].directory.filename().string());
    CHECK(gone == Names{"step-1", "step-2"});
    CHECK(beyond_newest(*entries, 4).empty());
  }

  TEST_CASE("a checkpoint that is removed is never seen in part") {
    for (int fail_at = 0; fail_at < 3; ++fail_at) {
      CAPTURE(fail_at);
      TempDirectory directory;
      write(directory / "step-1", 1);
      FaultyFileSystem files(fail_at, Fault::kDeath);
      CHECK_FALSE(remove_checkpoint(files, directory / "step-1").ok());
      const auto entries = list_checkpoints(directory.path(), true);
      REQUIRE(entries->size() == (fail_at < 2 ? 1 : 0));
      if (!entries->empty()) CHECK(entries->front().damage.empty());
      CHECK(
          remove_leftovers(posix_file_system(), directory.path(), [](auto) { return false; }).ok());
    }
    TempDirectory directory;
    write(directory / "step-1", 1);
    CHECK(remove_checkpoint(posix_file_system(), directory / "step-1").ok());
    CHECK(fs::is_empty(directory.path()));
    fs::create_directories(directory / "data-of-somebody");
    CHECK(remove_checkpoint(posix_file_system(), directory / "data-of-somebody").error().kind ==
          ErrorKind::kNotFound);
  }

  TEST_CASE("what dead writers left goes, and nothing else") {
    TempDirectory directory;
    const std::string self = std::to_string(::getpid());
    for (const char* name : {".step-3.partial-999999999-0", ".step-3.partial-8-1x",
                             ".step-4.partial-x-1", ".hidden", "step-5.partial-9-1"})
      fs::create_directories(directory / name);
    fs::create_directories(directory / (".step-6.partial-" + self + "-2"));
    const auto alive = [](std::uint64_t pid) { return pid != 8 && process_exists(pid); };
    const auto removed = remove_leftovers(posix_file_system(), directory.path(), alive);
    REQUIRE(removed.ok());
    CHECK(*removed == 2);
    CHECK(fs::exists(directory / (".step-6.partial-" + self + "-2")));
    CHECK(fs::exists(directory / ".step-4.partial-x-1"));
    CHECK(fs::exists(directory / ".hidden"));
    CHECK(fs::exists(directory / "step-5.partial-9-1"));
  }
}
