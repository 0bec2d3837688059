#include "store/checkpoint/catalog.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "store/checkpoint/removal.h"
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

void write_run(const fs::path& directory, Version version, const std::string& run,
               std::uint64_t written_unix_ms) {
  SampleCheckpoint sample({{"params", 100}});
  sample.head.version = version;
  sample.head.run = run;
  sample.head.written_unix_ms = written_unix_ms;
  fs::create_directories(directory.parent_path());
  REQUIRE(sample.write(directory).ok());
}

std::vector<std::string> names(const std::vector<CatalogEntry>& entries) {
  std::vector<std::string> list;
  for (const CatalogEntry& entry : entries) list.push_back(entry.directory.filename().string());
  return list;
}

using Names = std::vector<std::string>;

// Another process is faster.
class BesideAnother final : public FaultyFileSystem {
 public:
  BesideAnother() : FaultyFileSystem(-1, Fault::kError) {}

  Status rename_directory(const fs::path& from, const fs::path& to) override {
    fs::remove_all(from);
    return FaultyFileSystem::rename_directory(from, to);
  }
};

}  // namespace

TEST_SUITE("store/checkpoint/catalog") {
  TEST_CASE(
      "checkpoints are found in a directory, in its sub-directories, or as the directory itself") {
    TempDirectory directory;
    write(directory / "cnn-1/step-20", 20);
    write(directory / "cnn-1/step-100", 100);
    write(directory / "mine", 7);
    fs::create_directories(directory / "a/b/c");
    write(directory / "a/b/c/too-deep", 1);
    fs::create_directories(directory / ".step-3.partial-1-0");
    write_file(directory / ".step-3.partial-1-0/data", "x");
    const auto catalog = list_checkpoints(directory.path(), true);
    REQUIRE(catalog.ok());
    const std::vector<CatalogEntry>& entries = catalog->entries;
    CHECK(names(entries) == Names{"mine", "step-20", "step-100"});
    CHECK(entries[2].head->version == 100);
    CHECK(entries[2].bytes > 5000);
    CHECK(entries[2].damage.empty());
    CHECK(catalog->skipped.empty());
    CHECK(names(list_checkpoints(directory / "mine/", false)->entries) == Names{"mine"});
    CHECK(list_checkpoints(directory / "nowhere", false).error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a damaged checkpoint is listed with its error, by file and block") {
    TempDirectory directory;
    write(directory / "step-1", 1);
    write(directory / "step-2", 2);
    write(directory / "step-3", 3);
    flip_bit(directory / "step-1/data", 3000, 2);
    fs::remove(directory / "step-2/manifest");
    const auto quick = list_checkpoints(directory.path(), false)->entries;
    CHECK(quick[1].damage.empty());  // In step-1 only the manifest is undamaged.
    const auto entries = list_checkpoints(directory.path(), true)->entries;
    REQUIRE(entries.size() == 3);
    CHECK(entries[0].damage.find("step-2/manifest") != std::string::npos);
    CHECK_FALSE(entries[0].head.has_value());
    CHECK(entries[1].damage.find("step-1/data: damaged: section \"params\", block 0") !=
          std::string::npos);
    CHECK(entries[2].damage.empty());
  }

  TEST_CASE("the newest undamaged ones of each job and directory stay") {
    TempDirectory directory;
    for (Version v = 1; v <= 5; ++v) write(directory / ("a/step-" + std::to_string(v)), v);
    write(directory / "a/other-1", 1, "other");
    write(directory / "b/step-1", 1);
    flip_bit(directory / "a/step-5/data", 0, 0);
    const auto entries = list_checkpoints(directory.path(), true)->entries;
    Names gone;
    for (const std::size_t i : beyond_newest(entries, 2))
      gone.push_back(entries[i].directory.filename().string());
    CHECK(gone == Names{"step-1", "step-2"});
    CHECK(beyond_newest(entries, 4).empty());
  }

  TEST_CASE(
      "the newest checkpoint of each run is the one that was written last, whatever its step") {
    TempDirectory directory;
    write_run(directory / "cnn-1/step-40", 40, "cnn-1-old", 1000);
    write_run(directory / "cnn-1/step-60", 60, "cnn-1-old", 2000);
    write_run(directory / "cnn-1/step-90", 90, "cnn-1-new", 3000);
    write_run(directory / "cnn-1/step-10", 10, "cnn-1-new", 4000);  // The run went back.
    write_run(directory / "cnn-1/step-20", 20, "cnn-1-new", 5000);
    const auto entries = list_checkpoints(directory.path(), true)->entries;
    CHECK(names(entries) == Names{"step-40", "step-60", "step-90", "step-10", "step-20"});
    Names gone;
    for (const std::size_t i : beyond_newest(entries, 1))
      gone.push_back(entries[i].directory.filename().string());
    CHECK(gone == Names{"step-40", "step-90", "step-10"});
  }

  TEST_CASE(
      "a checkpoint in format 3 is ordered by the name of its job and the date of its manifest") {
    TempDirectory directory;
    for (const Version v : {Version{9}, Version{8}}) {
      const fs::path manifest = directory / ("step-" + std::to_string(v)) / "manifest";
      write(manifest.parent_path(), v);
      std::string text = read_file(manifest);
      const std::size_t run = text.find("run ");
      text.erase(run, text.find("params_digest") - run)
          .insert(run, "version " + std::to_string(v) + "\n");
      text.replace(text.find("checkpoint 5"), 12, "checkpoint 3").resize(text.rfind("end "));
      write_file(manifest, text + "end " + digest_of(text).hex() + "\n");
      const auto age = std::chrono::hours(v);  // The checkpoint step-9 is older.
      fs::last_write_time(manifest, fs::file_time_type::clock::now() - age);
    }
    const auto entries = list_checkpoints(directory.path(), true)->entries;
    REQUIRE(names(entries) == Names{"step-9", "step-8"});
    CHECK(entries[0].damage.empty());
    CHECK(entries[0].run() == "cnn");
    CHECK(entries[0].written_unix_ms < entries[1].written_unix_ms);
    CHECK(beyond_newest(entries, 1) == std::vector<std::size_t>{0});
  }

  TEST_CASE("symbolic links are not followed, and an unreadable entry does not hide the others") {
    TempDirectory directory;
    TempDirectory elsewhere;
    write(elsewhere / "step-1", 1);
    write(directory / "cnn-1/step-1", 1);
    fs::create_directory_symlink(directory / "cnn-1/step-1", directory / "cnn-1/latest");
    fs::create_directory_symlink(elsewhere.path(), directory / "cnn-2");
    const auto catalog = list_checkpoints(directory.path(), true);
    REQUIRE(catalog.ok());
    CHECK(names(catalog->entries) == Names{"step-1"});
    REQUIRE(catalog->skipped.size() == 2);
    for (const CatalogSkip& skip : catalog->skipped) {
      CHECK_FALSE(skip.unreadable);
      CHECK(skip.why.find("a symbolic link, which is not followed") != std::string::npos);
    }
    fs::create_directory_symlink(elsewhere / "step-1", directory / "link");
    CHECK(remove_checkpoint(posix_file_system(), directory / "link").error().kind ==
          ErrorKind::kRefused);
    CHECK(list_checkpoints(elsewhere.path(), true)->entries.front().damage.empty());
  }

  TEST_CASE("only files that the writer of the checkpoint made are removed") {
    TempDirectory directory;
    write(directory / "step-1", 1);
    write_file(directory / "step-1/notes.txt", "mine");
    fs::create_directory(directory / "step-1/plots");
    const auto others = remove_checkpoint(posix_file_system(), directory / "step-1");
    REQUIRE(others.ok());
    CHECK(*others == Names{"notes.txt", "plots"});
    CHECK(stays_text("step-1", *others) == "step-1: other files stay in it: notes.txt, plots");
    CHECK(read_file(directory / "step-1/notes.txt") == "mine");
    CHECK_FALSE(fs::exists(directory / "step-1/data"));
    CHECK(list_checkpoints(directory.path(), true)->entries.empty());

    // A file of the same name, and links in place of files.
    fs::create_directory(directory / "photos");
    write_file(directory / "photos/data", "mine");
    CHECK(remove_checkpoint(posix_file_system(), directory / "photos").error().kind ==
          ErrorKind::kRefused);
    CHECK(read_file(directory / "photos/data") == "mine");
    write(directory / "step-2", 2);
    fs::rename(directory / "step-2/data", directory / "kept");
    fs::create_symlink(directory / "kept", directory / "step-2/data");
    CHECK(*remove_checkpoint(posix_file_system(), directory / "step-2") == Names{"data"});
    CHECK(fs::is_symlink(fs::symlink_status(directory / "step-2/data")));
    CHECK(fs::exists(directory / "kept"));
  }

  TEST_CASE("a checkpoint that another process removes at the same time is not there") {
    TempDirectory directory;
    write(directory / "step-1", 1);
    BesideAnother files;
    CHECK(remove_checkpoint(files, directory / "step-1").error().kind == ErrorKind::kNotFound);
    CHECK(fs::is_empty(directory.path()));
  }

  TEST_CASE("a checkpoint that is being removed is never visible in part") {
    for (int fail_at = 0; fail_at < 6; ++fail_at) {
      CAPTURE(fail_at);
      TempDirectory directory;
      write(directory / "step-1", 1);
      FaultyFileSystem files(fail_at, Fault::kDeath);
      CHECK_FALSE(remove_checkpoint(files, directory / "step-1").ok());
      const auto entries = list_checkpoints(directory.path(), true)->entries;
      REQUIRE(entries.size() == (fail_at < 2 ? 1 : 0));
      if (!entries.empty()) CHECK(entries.front().damage.empty());
      const auto leftovers = find_leftovers(directory.path(), [](auto) { return false; });
      REQUIRE(leftovers.ok());
      CHECK(remove_leftovers(posix_file_system(), *leftovers).failed.empty());
      CHECK(entries.empty() == fs::is_empty(directory.path()));
    }
    TempDirectory directory;
    write(directory / "step-1", 1);
    CHECK(remove_checkpoint(posix_file_system(), directory / "step-1").ok());
    CHECK(fs::is_empty(directory.path()));
    fs::create_directories(directory / "data-of-somebody");
    CHECK(remove_checkpoint(posix_file_system(), directory / "data-of-somebody").error().kind ==
          ErrorKind::kNotFound);
  }

  TEST_CASE("unfinished checkpoints of dead writers are removed, and nothing else") {
    TempDirectory directory;
    const std::string self = std::to_string(::getpid());
    for (const char* name :
         {".step-3.partial-999999999-0", ".step-3.partial-8-1x", ".step-4.partial-x-1", ".hidden",
          "step-5.partial-9-1", ".step-7.partial-8-3-some.other.machine", ".step-8.partial-8-4"})
      fs::create_directories(directory / name);
    fs::create_directories(directory / (".step-6.partial-" + self + "-2"));
    fs::create_directories(directory / (".step-9.partial-8-5-" + machine_name()));
    write_file(directory / ".step-8.partial-8-4/data", "half");
    write_file(directory / ".step-8.partial-8-4/notes", "mine");
    fs::create_directory_symlink(directory / ".hidden", directory / ".step-1.partial-8-0");
    const auto alive = [](std::uint64_t pid) { return pid != 8 && process_exists(pid); };
    const auto leftovers = find_leftovers(directory.path(), alive);
    REQUIRE(leftovers.ok());
    const LeftoversRemoved done = remove_leftovers(posix_file_system(), *leftovers);
    CHECK(done.removed.size() == 3);
    REQUIRE(done.stays.size() == 1);
    CHECK(done.stays[0].find(".step-8.partial-8-4: other files stay in it: notes") !=
          std::string::npos);
    CHECK(done.failed.empty());
    CHECK_FALSE(fs::exists(directory / ".step-8.partial-8-4/data"));
    CHECK(fs::exists(directory / ".step-7.partial-8-3-some.other.machine"));
    CHECK(fs::is_symlink(fs::symlink_status(directory / ".step-1.partial-8-0")));
    CHECK(fs::exists(directory / (".step-6.partial-" + self + "-2")));
    CHECK(fs::exists(directory / ".step-4.partial-x-1"));
    CHECK(fs::exists(directory / ".hidden"));
    CHECK(fs::exists(directory / "step-5.partial-9-1"));
  }
}
