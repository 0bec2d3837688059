#include "store/kv/rocksdb_key_value_store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <rocksdb/db.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>

#include "store/kv/guarded_key_value_store.h"
#include "store/kv/seal_file.h"
#include "tests/store/temp_directory.h"
#include "tests/support/places.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

// What fsync() has forced to the disk, and whether a seal file was in it.
std::mutex synced_mutex;
std::map<std::filesystem::path, bool> synced;  // guarded by synced_mutex

}  // namespace

// Takes the place of the function of the C library in this program.
extern "C" int fsync(int descriptor) {
  std::error_code ignored;
  const auto path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored);
  const std::lock_guard lock(synced_mutex);  // RocksDB has threads of its own
  synced[path] = std::filesystem::exists(path / SealFile::kName, ignored);
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace {

std::unique_ptr<KeyValueStore> open(const std::filesystem::path& directory) {
  auto store = open_state_directory(directory);
  REQUIRE_MESSAGE(store.ok(), (store.ok() ? "" : store.error().message));
  return std::move(*store);
}

void put(KeyValueStore& store, const std::string& key, const std::string& value) {
  WriteBatch batch;
  batch.put(key, value);
  REQUIRE(store.write(batch, Durability::kSynced).ok());
}

// Another process that has opened the state directory.
class Holder {
 public:
  explicit Holder(const std::filesystem::path& directory) {
    std::array<int, 2> pipe{};
    REQUIRE(::pipe(pipe.data()) == 0);
    const std::string program = test::program_beside("state_holder");
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(pipe[1], STDOUT_FILENO);
      ::close(pipe[0]);
      ::execl(program.c_str(), program.c_str(), directory.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(pipe[1]);
    std::array<char, 5> said{};
    CHECK(::read(pipe[0], said.data(), said.size()) == 5);  // It reads "open\n".
    ::close(pipe[0]);
  }
  ~Holder() { kill(); }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_ = 0;
};

// Makes every write to the open seal file of `directory` fail during its lifetime: it puts a full
// device in the place of the descriptor.
class FullSeal {
 public:
  explicit FullSeal(const std::filesystem::path& directory) {
    const auto seal = std::filesystem::canonical(directory) / SealFile::kName;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code ignored;
      if (std::filesystem::read_symlink(entry.path(), ignored) == seal)
        descriptor_ = std::stoi(entry.path().filename().string());
    }
    REQUIRE(descriptor_ >= 0);
    before_ = ::dup(descriptor_);
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(::dup2(full, descriptor_) == descriptor_);
    ::close(full);
  }
  ~FullSeal() {
    ::dup2(before_, descriptor_);
    ::close(before_);
  }

 private:
  int descriptor_ = -1;
  int before_ = -1;
};

// A state directory with 100 pairs: in the write-ahead log ("log") or in a table file ("table").
void fill(const std::filesystem::path& directory) {
  auto store = open(directory);
  for (int i = 0; i < 100; ++i) put(*store, "key" + std::to_string(i), std::string(100, 'v'));
}

// The largest file of the database with this extension or this beginning of its name.
std::filesystem::path largest(const std::filesystem::path& directory, const std::string& part) {
  std::filesystem::path best;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.find(part) == std::string::npos) continue;
    if (best.empty() || entry.file_size() > std::filesystem::file_size(best)) best = entry.path();
  }
  REQUIRE_FALSE(best.empty());
  return best;
}

// Opens and reads everything. Returns the error, or the number of pairs of fill().
Result<int> read_all(const std::filesystem::path& directory) {
  auto store = open_state_directory(directory);
  if (!store) return store.error();
  int pairs = 0;
  bool intact = true;
  ES_RETURN_IF_ERROR((*store)->scan("key", "kez", [&](std::string_view, std::string_view value) {
    intact = intact && value == std::string(100, 'v');
    return ++pairs > 0;
  }));
  CHECK(intact);
  return pairs;
}

}  // namespace

TEST_SUITE("store/kv/rocksdb_key_value_store") {
  TEST_CASE("pairs that were written exist after the directory is opened again") {
    TempDirectory directory;
    put(*open(directory / "state"), "key", "value");
    CHECK(*open(directory / "state")->get("key") == "value");
  }

  TEST_CASE("the names of a new directory and of its seal file are on the disk when it is open") {
    TempDirectory directory;
    const auto parent = std::filesystem::canonical(directory.path());
    open(directory / "state");
    const std::lock_guard lock(synced_mutex);
    CHECK(synced.contains(parent));
    CHECK(synced[parent / "state"]);
  }

  TEST_CASE("a directory that another process has opened is refused, and free after its death") {
    TempDirectory directory;
    Holder holder(directory / "state");
    const auto store = open_state_directory(directory / "state");
    REQUIRE_FALSE(store.ok());
    CHECK(store.error().kind == ErrorKind::kRefused);
    CHECK(store.error().message == "state directory " + (directory / "state").string() +
                                       " is in use by another easyscaled: allowed is one at a "
                                       "time");
    holder.kill();
    const auto reopened = open(directory / "state");
    CHECK(*reopened->get("synced") == "1");
    CHECK(*reopened->get("buffered") == "2");
  }

  TEST_CASE("a directory that this process has opened is refused") {
    TempDirectory directory;
    const auto first = open(directory / "state");
    const auto second = open_state_directory(directory / "state");
    REQUIRE_FALSE(second.ok());
    CHECK(second.error().kind == ErrorKind::kRefused);
  }

  TEST_CASE("a missing parent is not found, and a file in place of the directory is named") {
    TempDirectory directory;
    const auto orphan = open_state_directory(directory / "none/state");
    REQUIRE_FALSE(orphan.ok());
    CHECK(orphan.error().kind == ErrorKind::kNotFound);
    write_file(directory / "file", "");
    const auto file = open_state_directory(directory / "file");
    REQUIRE_FALSE(file.ok());
    CHECK(file.error().message.find("is a file") != std::string::npos);
  }

  TEST_CASE("damage in the middle of the log is an error, and never loses pairs silently") {
    TempDirectory directory;
    fill(directory / "state");
    const auto log = largest(directory / "state", ".log");
    flip_bit(log, std::filesystem::file_size(log) / 2, 3);
    const Result<int> read = read_all(directory / "state");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().kind == ErrorKind::kFailure);
    CHECK(read.error().message.find((directory / "state").string()) != std::string::npos);
  }

  TEST_CASE("damage in a table file is an error") {
    TempDirectory directory;
    fill(directory / "state");
    REQUIRE(*read_all(directory / "state") == 100);  // Opening has moved the log into a table.
    const auto table = largest(directory / "state", ".sst");
    flip_bit(table, 100, 3);
    CHECK_FALSE(read_all(directory / "state").ok());
  }

  TEST_CASE("lost and damaged files of the database are errors, and never an empty store") {
    for (const char* name : {"CURRENT", "MANIFEST", ".sst"}) {
      for (const bool removed : {true, false}) {
        TempDirectory directory;
        fill(directory / "state");
        REQUIRE(*read_all(directory / "state") == 100);
        const auto file = largest(directory / "state", name);
        if (removed)
          std::filesystem::remove(file);
        else
          write_file(file, "garbage");
        CAPTURE(name);
        CAPTURE(removed);
        CHECK_FALSE(read_all(directory / "state").ok());
      }
    }
  }

  TEST_CASE("a write whose seal fails has happened, and the next one fails and changes nothing") {
    TempDirectory directory;
    GuardedKeyValueStore store(open(directory / "state"));
    put(store, "key", "1");
    WriteBatch second, third;
    second.put("key", "2");
    third.put("key", "3");
    third.put("other", "3");
    {
      const FullSeal full(directory / "state");
      CHECK(store.write(second, Durability::kSynced).ok());
      for (const Durability durability : {Durability::kBuffered, Durability::kSynced}) {
        const Status refused = store.write(third, durability);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().message.find("SEAL: cannot be written") != std::string::npos);
        CHECK(*store.get("key") == "2");
        CHECK_FALSE(store.get("other")->has_value());
      }
    }
    REQUIRE(store.recover().ok());
    CHECK(*store.get("key") == "2");
    CHECK_FALSE(store.get("other")->has_value());
    put(store, "key", "4");
    CHECK(*store.get("key") == "4");
  }

  TEST_CASE("a seal that failed is written before the next change") {
    TempDirectory directory;
    {
      const auto store = open(directory / "state");
      const std::uint64_t before = SealFile::read(directory / "state").value();
      {
        const FullSeal full(directory / "state");
        put(*store, "key", "1");
      }
      CHECK(SealFile::read(directory / "state").value() == before);
      WriteBatch buffered;
      buffered.put("other", "1");
      REQUIRE(store->write(buffered, Durability::kBuffered).ok());
      // It covers the synced change and not the buffered one, which a power cut may lose.
      CHECK(SealFile::read(directory / "state").value() == before + 1);
    }
    CHECK(*open(directory / "state")->get("key") == "1");
  }

  TEST_CASE("a store of another schema version, or of another program, is refused") {
    TempDirectory directory;
    put(*open(directory / "state"), std::string("meta\0schema\0", 12), "999");
    const auto newer = open_state_directory(directory / "state");
    REQUIRE_FALSE(newer.ok());
    CHECK(newer.error().message.find("schema version = \"999\": allowed is 1") !=
          std::string::npos);

    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::DB* other = nullptr;
    REQUIRE(rocksdb::DB::Open(options, directory / "other", &other).ok());
    REQUIRE(other->Put(rocksdb::WriteOptions(), "key", "value").ok());
    delete other;
    const auto foreign = open_state_directory(directory / "other");
    REQUIRE_FALSE(foreign.ok());
    CHECK(foreign.error().message.find("some other program") != std::string::npos);
  }
}
