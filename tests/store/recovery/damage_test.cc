// Every kind of damage to a state directory: either it is refused and the error names the file, or
// no data are missing. Recovery restores the undamaged data, names the lost ones, and keeps the
// original.
#include <doctest/doctest.h>
#include <rocksdb/db.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>

#include "store/journal/claim_journal.h"
#include "store/journal/job_history.h"
#include "store/journal/job_journal.h"
#include "store/journal/suspect_devices.h"
#include "store/kv/keys.h"
#include "store/kv/rocksdb_key_value_store.h"
#include "store/ledger/ledger.h"
#include "store/metrics/metric.h"
#include "store/plans/plan_store.h"
#include "store/recovery/records.h"
#include "store/recovery/recover.h"
#include "tests/store/temp_directory.h"
#include "tests/support/places.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

namespace fs = std::filesystem;
using Pairs = std::map<std::string, std::string>;

constexpr Version kLines = 400;

JobRecord job(const std::string& id, std::uint64_t sequence, JobState state) {
  JobRecord record;
  record.id = id;
  record.spec_toml = "name = \"" + id + "\"\n" + std::string(500, '#');
  record.state = state;
  record.generation = Generation{3};
  record.known = {{Incarnation{sequence * 10}, "n1", {"cpu-avx2"}, 0, "ipc://a", "host"}};
  record.sequence = sequence;
  return record;
}

Pairs pairs_of(const KeyValueStore& store) {
  Pairs pairs;
  REQUIRE(store
              .scan({"\0", 1}, "\xff",
                    [&](std::string_view key, std::string_view value) {
                      pairs.emplace(key, value);
                      return true;
                    })
              .ok());
  return pairs;
}

void write_ledger(KeyValueStore& store, const JobId& id, Version begin, Version end) {
  Ledger ledger(store);
  for (Version v = begin; v <= end; ++v)
    REQUIRE(ledger.append(id, {v, {0.5F, 0.25F, float(v)}, digest_of(std::to_string(v))}).ok());
}

// All tables. The records lie in two table files, and the newest ones in the log. Each call of open
// moves the content of the log into a file.
Pairs fill(const fs::path& directory) {
  {
    const auto store = open_state_directory(directory).value();
    JobJournal journal(*store);
    for (int i = 0; i < 4; ++i) REQUIRE(journal.next_sequence().ok());
    REQUIRE(journal.keep_incarnation({40}).ok());
    REQUIRE(journal.save(job("a-1", 1, JobState::kFinished)).ok());
    REQUIRE(journal.save(job("b-2", 2, JobState::kStarting)).ok());
    write_ledger(*store, "a-1", 1, kLines);
    write_ledger(*store, "b-2", 1, kLines / 2);
    JobHistory history(*store);
    REQUIRE(history.save_final_state("a-1", digest_of("state")).ok());
    REQUIRE(history.save_end("a-1", std::string(64, 'e')).ok());
  }
  {
    const auto store = open_state_directory(directory).value();
    REQUIRE(ClaimJournal(*store).save({"serving", {"cpu-avx2"}, 2}).ok());
    REQUIRE(ClaimJournal(*store).save({"batch", {"cpu-avx512"}, 1}).ok());
    REQUIRE(SuspectDevices(*store).save({"n1", {"cpu-avx2"}, 1, "an audit failed"}).ok());
    write_ledger(*store, "b-2", kLines / 2 + 1, kLines);
    PlanStore plans(*store);
    REQUIRE(plans.save_capability("toy", 4, {{"cpu-avx2"}, 12.5, 3}).ok());
    REQUIRE(plans.save_sync("toy", 4, {{2, 0.5}}).ok());
    REQUIRE(
        plans.save_plans("toy", 4, {"inputs", true, {{{{{"cpu-avx2"}, 1, 4}}, 0.0, 12.5}}}).ok());
    MetricTotals totals;
    const auto bytes = totals.encode();
    REQUIRE(
        JobHistory(*store)
            .save_evaluation("b-2", 50, {reinterpret_cast<const char*>(bytes.data()), bytes.size()})
            .ok());
  }
  const auto store = open_state_directory(directory).value();
  REQUIRE(ClaimJournal(*store).erase("batch").ok());
  REQUIRE(ClaimJournal(*store).save({"newest", {"cpu-scalar"}, 1}).ok());
  write_ledger(*store, "b-2", kLines + 1, kLines + 40);
  REQUIRE(JobJournal(*store).save(job("c-3", 3, JobState::kQueued)).ok());
  return pairs_of(*store);
}

std::vector<fs::path> files(const fs::path& directory, const std::string& part) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().filename().string().find(part) != std::string::npos)
      found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  REQUIRE_FALSE(found.empty());
  return found;
}

fs::path largest(const fs::path& directory, const std::string& part) {
  const auto found = files(directory, part);
  return *std::max_element(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return fs::file_size(a) < fs::file_size(b);
  });
}

// The bytes of all files with data.
std::map<std::string, std::string> contents(const fs::path& directory) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("LOG") || name == "LOCK" || !entry.is_regular_file()) continue;
    all[name] = read_file(entry.path());
  }
  return all;
}

struct Damage {
  std::string name;
  std::function<void(const fs::path&)> inflict;
  std::string names;         // The text that the refusal contains; empty: any text.
  bool can_recover = true;   // Whether recovery is possible after a refusal.
  bool of_a_record = false;  // The files are undamaged.
};

// A bit of the largest file of a kind. `at` counts from the beginning, or, if negative, from the
// end.
Damage flip(const std::string& part, const std::string& where, double share, int at) {
  return {part + ": a bit flips " + where,
          [=](const fs::path& directory) {
            const fs::path file = largest(directory, part);
            const auto size = static_cast<double>(fs::file_size(file));
            flip_bit(file, static_cast<std::uint64_t>(share * size + at), 3);
          },
          part == "MANIFEST-" ? "MANIFEST-" : part};
}

Damage cut(const std::string& part, const std::string& how, double share, int at) {
  return {part + ": cut " + how,
          [=](const fs::path& directory) {
            const fs::path file = largest(directory, part);
            const auto size = static_cast<double>(fs::file_size(file));
            fs::resize_file(file, static_cast<std::uint64_t>(share * size + at));
          },
          part};
}

Damage missing(const std::string& part, const std::string& names) {
  return {part + ": missing",
          [=](const fs::path& directory) { fs::remove(largest(directory, part)); }, names};
}

Damage garbage(const std::string& part, const std::string& text, const std::string& names) {
  return {part + ": \"" + text.substr(0, 12) + "\"",
          [=](const fs::path& directory) { write_file(largest(directory, part), text); }, names};
}

// The database finds no damage in this record.
Damage record(const std::string& key, const std::string& value, bool can_recover = true) {
  return {"value of " + name_of_key(key),
          [=](const fs::path& directory) {
            rocksdb::DB* db = nullptr;
            REQUIRE(rocksdb::DB::Open({}, directory.string(), &db).ok());
            REQUIRE(db->Put(rocksdb::WriteOptions(), key, value).ok());
            delete db;
          },
          "", can_recover, true};
}

void swap_tables(const fs::path& directory) {
  const auto tables = files(directory, ".sst");
  REQUIRE(tables.size() >= 2);
  fs::rename(tables[0], directory / "between");
  fs::rename(tables[1], tables[0]);
  fs::rename(directory / "between", tables[1]);
}

void add_column_family(const fs::path& directory) {
  rocksdb::DB* db = nullptr;
  REQUIRE(rocksdb::DB::Open({}, directory.string(), &db).ok());
  rocksdb::ColumnFamilyHandle* family = nullptr;
  REQUIRE(db->CreateColumnFamily({}, "foreign", &family).ok());
  REQUIRE(db->Put(rocksdb::WriteOptions(), family, "key", "value").ok());
  delete family;
  delete db;
}

void make_directory(const fs::path& path) {
  fs::remove(path);
  fs::create_directory(path);
}

std::vector<Damage> all_kinds() {
  const auto key = [](const char* table) { return KeyBuilder(table); };
  return {
      flip(".sst", "in the first block of data", 0, 10),
      flip(".sst", "in the middle", 0.5, 0),
      flip(".sst", "in three quarters", 0.75, 0),
      flip(".sst", "in the index or the properties", 1, -900),
      flip(".sst", "in the properties", 1, -400),
      flip(".sst", "in the list of its parts", 1, -100),
      flip(".sst", "in the footer", 1, -45),
      flip(".sst", "in the last byte", 1, -1),
      cut(".sst", "in half", 0.5, 0),
      cut(".sst", "by a byte", 1, -1),
      cut(".sst", "to nothing", 0, 0),
      missing(".sst", ".sst"),
      garbage(".sst", "garbage", ".sst"),
      {".sst: two are swapped", swap_tables, ".sst"},
      {".sst: a directory", [](const fs::path& d) { make_directory(largest(d, ".sst")); }, ".sst"},
      flip("MANIFEST-", "at its beginning", 0, 8),
      flip("MANIFEST-", "in the middle", 0.5, 0),
      flip("MANIFEST-", "at its end", 1, -2),
      cut("MANIFEST-", "in half", 0.5, 0),
      cut("MANIFEST-", "by a byte", 1, -1),
      cut("MANIFEST-", "to nothing", 0, 0),
      missing("MANIFEST-", "MANIFEST-"),
      garbage("MANIFEST-", "garbage", "MANIFEST-"),
      missing("CURRENT", "CURRENT"),
      garbage("CURRENT", "", "CURRENT"),
      garbage("CURRENT", "garbage\n", "CURRENT"),
      garbage("CURRENT", "MANIFEST-999999\n", "MANIFEST-999999"),
      {"CURRENT: a directory", [](const fs::path& d) { make_directory(d / "CURRENT"); }, "CURRENT"},
      flip(".log", "in the first checksum", 0, 2),
      flip(".log", "in the first length", 0, 5),
      flip(".log", "in the middle", 0.5, 0),
      flip(".log", "in the last record", 1, -20),
      cut(".log", "in half", 0.5, 0),
      cut(".log", "by a byte", 1, -1),
      cut(".log", "to nothing", 0, 0),
      missing(".log", ".log"),
      garbage(".log", std::string(1000, 'x'), ".log"),
      missing("OPTIONS-", ""),
      garbage("OPTIONS-", "garbage", ""),
      missing("IDENTITY", ""),
      garbage("IDENTITY", "garbage", ""),
      missing("LOCK", ""),
      {"LOCK: a directory", [](const fs::path& d) { make_directory(d / "LOCK"); }, "LOCK"},
      missing("SEAL", ""),
      garbage("SEAL", "garbage", "SEAL"),
      flip("SEAL", "in its number", 0, 19),
      {"column families: a foreign one", add_column_family, ""},
      record(key("meta").text("schema").key(), "999", false),
      record(key("job").text("b-2").key(), "garbage"),
      record(key("claim").text("serving").key(), "garbage"),
      record(key("suspect").text("n1").text("cpu-avx2").number(1).key(), "garbage"),
      record(key("counter").text("sequence").key(), "garbage"),
      record(key("plans").text("toy").number(4).key(), "garbage"),
      record(key("capability").text("toy").number(4).text("cpu-avx2").key(), "garbage"),
      record(key("sync").text("toy").number(4).key(), "garbage"),
      record(key("evaluation").text("b-2").number(50).key(), "garbage"),
      record(key("final_state").text("a-1").key(), "garbage"),
      record(key("end").text("a-1").key(), "garbage"),
      record(key("ledger").text("b-2").number(7).key(), "garbage"),
      record("no table at all", "garbage"),
  };
}

// It is refused with the name of the file, or nothing is missing.
bool check_start(const fs::path& directory, const Damage& damage, const Pairs& whole) {
  const auto before = contents(directory);
  const auto store = open_state_directory(directory);
  if (!store) {
    INFO(store.error().message);
    CHECK(store.error().kind == ErrorKind::kFailure);
    CHECK(store.error().message.find(directory.string()) != std::string::npos);
    CHECK(store.error().message.find(damage.names) != std::string::npos);
    CHECK((damage.of_a_record || contents(directory) == before));
    return false;
  }
  const Status records = check_records(**store);
  if (!records.ok()) return false;
  CHECK(pairs_of(**store) == whole);
  return true;
}

// No data are invented, missing data were named, and the original exists.
void check_recovery(const fs::path& directory, const Damage& damage, const Pairs& whole) {
  const auto before = contents(directory);
  const auto recovery = recover_state_directory(directory);
  if (!damage.can_recover) {
    CHECK_FALSE(recovery.ok());
    CHECK(fs::exists(directory / "CURRENT"));
    return;
  }
  REQUIRE_MESSAGE(recovery.ok(), recovery.error().message);
  REQUIRE_FALSE(recovery->original.empty());
  CHECK((damage.of_a_record || contents(recovery->original) == before));
  const auto store = open_state_directory(directory);
  REQUIRE_MESSAGE(store.ok(), store.error().message);
  CHECK(check_records(**store).ok());
  std::size_t same = 0;
  for (const auto& [key, value] : pairs_of(**store)) {
    const auto parsed = parse_key(key);
    REQUIRE(parsed);
    if (parsed->table == "counter") continue;
    if (whole.contains(key) && whole.at(key) == value) ++same;
  }
  CAPTURE(same);
  std::string dropped;
  for (const std::string& line : recovery->dropped) dropped += "\n  " + line;
  CAPTURE(dropped);
  if (same + 2 < whole.size()) CHECK_FALSE(recovery->dropped.empty());
  // A table whose index cannot be read is lost as a whole, and a damaged block is lost alone. Lines
  // of a job that continues are dropped after a gap.
  const bool is_lost =
      damage.name.find(".sst: ") == 0 && damage.name.find("three quarters") == std::string::npos;
  CHECK(same >= (is_lost ? 3 : whole.size() * 2 / 5));
  CHECK(JobJournal(**store).next_sequence().value() > 4);
  CHECK(JobJournal(**store).last_incarnation().value() >= Incarnation{40});
}

// Recovers in another process, which ends before its `n`-th move. Returns whether it has ended so.
bool ends_at_move(const fs::path& directory, int n) {
  const std::string command = "ES_KILL_POINT=recover.move:" + std::to_string(n) + " exec " +
                              test::program_beside("recover_state").string() + " " +
                              directory.string();
  const int status = std::system(command.c_str());
  if (WIFSIGNALED(status)) {
    CHECK(WTERMSIG(status) == SIGKILL);
    return true;
  }
  CHECK(WEXITSTATUS(status) == 0);
  return false;
}

std::set<std::string> names_in(const fs::path& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  return names;
}

Pairs pairs_in(const fs::path& directory) {
  const auto store = open_state_directory(directory);
  REQUIRE_MESSAGE(store.ok(), (store.ok() ? "" : store.error().message));
  return pairs_of(**store);
}

// Without --recover the head never begins with an empty state.
void check_not_empty(const fs::path& directory, const Pairs& expected) {
  const auto opened = open_state_directory(directory);
  if (opened) {
    CHECK(pairs_of(**opened) == expected);
  } else {
    CHECK(opened.error().message.find("easyscaled --head --recover") != std::string::npos);
  }
}

TEST_SUITE("store/recovery/damage") {
  TEST_CASE("a recovery that ended before any of its moves is completed by the next one") {
    TempDirectory source;
    fill(source / "db");
    const fs::path table = largest(source / "db", ".sst");
    flip_bit(table, fs::file_size(table) / 2, 3);
    const auto damaged = contents(source / "db");
    fs::copy(source / "db", source / "expected", fs::copy_options::recursive);
    REQUIRE(recover_state_directory(source / "expected").ok());
    const Pairs expected = pairs_in(source / "expected");

    int moves = 0;
    for (bool was_killed = true; was_killed; ++moves) {
      CAPTURE(moves);
      TempDirectory directory;
      const fs::path state = directory / "db";
      fs::copy(source / "db", state, fs::copy_options::recursive);
      was_killed = ends_at_move(state, moves + 1);
      check_not_empty(state, expected);
      if (!was_killed) break;
      const auto again = recover_state_directory(state);
      REQUIRE_MESSAGE(again.ok(), (again.ok() ? "" : again.error().message));
      CHECK(again->original == directory / "db.damaged-1");
      CHECK(contents(directory / "db.damaged-1") == damaged);
      CHECK(pairs_in(state) == expected);
      CHECK(names_in(directory.path()) == std::set<std::string>{"db", "db.damaged-1"});
    }
    CHECK(moves == 3);
  }

  TEST_CASE("every kind of damage is refused by name or harmless, and recovery is possible") {
    TempDirectory directory;
    const Pairs whole = fill(directory / "whole");
    REQUIRE(files(directory / "whole", ".sst").size() >= 2);
    int refused = 0;
    for (const Damage& damage : all_kinds()) {
      CAPTURE(damage.name);
      const fs::path state = directory / "db";
      fs::copy(directory / "whole", state, fs::copy_options::recursive);
      damage.inflict(state);
      if (!check_start(state, damage, whole)) {
        ++refused;
        check_recovery(state, damage, whole);
      }
      for (const auto& entry : fs::directory_iterator(directory.path()))
        if (entry.path().filename() != "whole") fs::remove_all(entry.path());
    }
    MESSAGE("kinds: " << all_kinds().size() << ", refused: " << refused);
    CHECK(refused >= 40);
  }

  TEST_CASE("undamaged files do not change") {
    TempDirectory directory;
    const Pairs whole = fill(directory / "db");
    const auto recovery = recover_state_directory(directory / "db");
    REQUIRE(recovery.ok());
    CHECK(recovery->original.empty());
    CHECK(pairs_of(*open_state_directory(directory / "db").value()) == whole);
  }

  TEST_CASE(
      "a file in place of a directory, a missing directory and one without access are named") {
    TempDirectory directory;
    write_file(directory / "db", "text");
    CHECK(recover_state_directory(directory / "db").error().kind == ErrorKind::kNotFound);
    CHECK(open_state_directory(directory / "db").error().message.find("is a file") !=
          std::string::npos);
    CHECK(recover_state_directory(directory / "none").error().kind == ErrorKind::kNotFound);
    if (::geteuid() == 0) return;
    fill(directory / "closed");
    fs::permissions(directory / "closed", fs::perms::none);
    const auto closed = open_state_directory(directory / "closed");
    fs::permissions(directory / "closed", fs::perms::owner_all);
    REQUIRE_FALSE(closed.ok());
    CHECK(closed.error().message.find("closed") != std::string::npos);
  }

  TEST_CASE("records that depend on a lost record are removed too, by name") {
    std::vector<std::string> dropped;
    TempDirectory directory;
    Pairs pairs = fill(directory / "db");
    pairs.erase(KeyBuilder("job").text("a-1").key());
    pairs.erase(KeyBuilder("ledger").text("b-2").number(100).key());
    const std::string of_job = KeyBuilder("job").text("b-2").key();
    JobRecord before = decode_job_record(pairs.at(of_job), "b-2").value();
    before.checkpoints = {{.path = "/s/b-2-suspended-9", .version = 101},
                          {.path = "/s/b-2-suspended-8", .version = 50}};
    pairs[of_job] = encode_job_record(before);
    make_consistent(pairs, dropped);
    REQUIRE(dropped.size() == 3);
    CHECK(dropped[0].find("job \"a-1\": its record is lost") == 0);
    const JobRecord record =
        decode_job_record(pairs.at(KeyBuilder("job").text("b-2").key()), "b-2").value();
    CHECK(record.known.empty());
    CHECK(record.generation.value > 3);
    // The ledger does not lead to the version of this state. The job does not continue from it, and
    // the record names it, so that no node removes it.
    CHECK(record.set_aside == std::vector<std::string>{"/s/b-2-suspended-9"});
    REQUIRE(record.checkpoints.size() == 1);
    CHECK(record.checkpoints[0].version == 50);
    CHECK(dropped[1].find("ledger of job \"b-2\": versions 100 to 100 are lost") == 0);
    CHECK(pairs.contains(KeyBuilder("ledger").text("b-2").number(99).key()));
    CHECK_FALSE(pairs.contains(KeyBuilder("ledger").text("b-2").number(101).key()));
    CHECK_FALSE(pairs.contains(KeyBuilder("ledger").text("a-1").number(1).key()));
  }
}

}  // namespace
