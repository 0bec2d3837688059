#include "store/journal/job_journal.h"

#include <doctest/doctest.h>

#include "store/kv/keys.h"
#include "store/kv/memory_key_value_store.h"
#include "store/kv/rocksdb_key_value_store.h"
#include "tests/store/mutate.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

JobRecord sample(const JobId& id, std::uint64_t sequence) {
  JobRecord record;
  record.id = id;
  record.spec_toml = "name = \"" + id + "\"\nmax_p = 4\n";
  record.state = JobState::kStarting;
  record.generation = {7};
  record.start_checkpoint = "/checkpoints/older/v40-g3-i9";
  record.known = {{{3}, {"node-a", {"cpu-avx2"}, 0}, "ipc:///run/es/3", "host-a"},
                  {{1'000'000'000'000}, {"node-b", {"cpu-avx512"}, 7}, "tcp://10.0.0.2:7000", ""}};
  record.pinned.emplace();
  record.bound_type = DeviceType{"cpu-avx2"};
  record.set_aside = {"/checkpoints/job-1-suspended-3"};
  record.pinned->add({"cpu-avx2"}, 2);
  record.pinned->add({"cpu-avx512"}, 1);
  record.checkpoints = {
      {"/checkpoints/v80-g7-i3", 80, true, {"node-a", "node-b"}, {{1, 2}, {3, 4}}},
      {"/mine", 70, false}};
  record.spoiled = {{"/checkpoints/v90-g7-i3", 90, true}};
  record.refusals.resize(2);
  record.refusals[0].held.add({"cpu-avx2"}, 2);
  record.refusals[0].types = {{"cpu-avx2"}, {"cpu-avx512"}};
  record.refusals[0].capabilities = {{{"cpu-avx2"}, 3.25}, {{"cpu-avx512"}, 7.5}};
  record.refusals[1].held.add({"cpu-avx512"}, 1);
  record.refusals[1].types = {{"cpu-avx512"}};
  record.rewinding = 80;
  record.held_ms = 123'456;
  record.spent = 7.25;
  record.budget = 8;
  record.over_budget = true;
  record.counted_unix_ms = 1'700'000'100'456;
  record.price_per_hour = 2.5;
  record.submitter = "alice";
  record.best = {"/checkpoints/best/step-60", 60, false, {"node-b"}, {{5, 6}, {7, 8}}};
  record.sequence = sequence;
  record.submitted_unix_ms = 1'700'000'000'123;
  record.error = "none \"yet\"\n";
  return record;
}

JobRecord decoded(const std::string& bytes, const JobId& id) {
  Result<JobRecord> record = decode_job_record(bytes, id);
  REQUIRE(record.ok());
  return *record;
}

}  // namespace

TEST_SUITE("store/journal/job_journal") {
  TEST_CASE("a record is read back unchanged, in every state and with every field empty") {
    JobRecord record = sample("a", 1);
    for (int state = 0; state <= static_cast<int>(JobState::kTimedOut); ++state) {
      record.state = static_cast<JobState>(state);
      JobRecord expected = record;
      // A head that is restarted begins a job that ran, or changed its placement, with a new round.
      if (record.state == JobState::kRunning || record.state == JobState::kRescaling)
        expected.state = JobState::kStarting;
      CHECK(decoded(encode_job_record(record), "a") == expected);
    }
    record.state = JobState::kPaused;
    JobRecord empty;
    empty.id = "b";
    CHECK(decoded(encode_job_record(empty), "b") == empty);
  }

  TEST_CASE("records of the five versions before are read, without the fields that they lack") {
    JobRecord record = sample("a", 1);
    record.best.reset();
    std::string bytes = encode_job_record(record);
    JobRecord expected = decoded(bytes, "a");
    bytes[0] = 10;
    bytes.resize(bytes.size() - 1);
    CHECK(decoded(bytes, "a") == expected);
    bytes[0] = 9;
    bytes.resize(bytes.size() - sizeof(std::uint32_t) - record.submitter.size());
    expected.submitter.clear();
    CHECK(decoded(bytes, "a") == expected);
    bytes[0] = 8;
    bytes.resize(bytes.size() - sizeof(record.counted_unix_ms) - sizeof(double));
    expected.counted_unix_ms = 0;
    expected.price_per_hour = 0;
    CHECK(decoded(bytes, "a") == expected);
    bytes[0] = 7;
    bytes.resize(bytes.size() - 2 * sizeof(double) - 1);
    expected.spent = expected.budget = 0;
    expected.over_budget = false;
    CHECK(decoded(bytes, "a") == expected);
    bytes[0] = 6;
    bytes.resize(bytes.size() - sizeof(record.held_ms));
    expected.held_ms = 0;
    CHECK(decoded(bytes, "a") == expected);
  }

  TEST_CASE("after a restart jobs are read in order of submission") {
    TempDirectory directory;
    {
      auto store = open_state_directory(directory / "state");
      REQUIRE(store.ok());
      JobJournal journal(**store);
      for (const char* id : {"zebra", "ant", "net", "net2"})
        REQUIRE(journal.save(sample(id, *journal.next_sequence())).ok());
      WriteBatch batch;
      JobJournal::add_removal("net", batch);
      REQUIRE((*store)->write(batch, Durability::kSynced).ok());
    }
    auto store = open_state_directory(directory / "state");
    REQUIRE(store.ok());
    JobJournal journal(**store);
    const auto records = journal.load_all();
    REQUIRE(records.ok());
    REQUIRE(records->size() == 3);
    CHECK((*records)[0] == sample("zebra", 1));
    CHECK((*records)[1] == sample("ant", 2));
    CHECK((*records)[2] == sample("net2", 4));
    CHECK(*journal.next_sequence() == 5);
  }

  TEST_CASE("the tag of a state directory is the first one that was stored") {
    TempDirectory directory;
    for (const char* fresh : {"k3x9w2fa", "other"}) {
      auto store = open_state_directory(directory / "state");
      REQUIRE(store.ok());
      CHECK(*JobJournal(**store).keep_tag(fresh) == "k3x9w2fa");
    }
  }

  TEST_CASE("saving replaces the record of the same job") {
    MemoryKeyValueStore store;
    JobJournal journal(store);
    JobRecord record = sample("a", 1);
    REQUIRE(journal.save(record).ok());
    record.state = JobState::kFailed;
    record.error = "out of memory";
    REQUIRE(journal.save(record).ok());
    CHECK(**journal.load("a") == record);
    CHECK(journal.load_all()->size() == 1);
    CHECK_FALSE(journal.load("b")->has_value());
  }

  TEST_CASE("numbers are never used twice, and incarnations do not use up sequence numbers") {
    MemoryKeyValueStore store;
    JobJournal before(store);
    CHECK(*before.last_incarnation() == Incarnation{0});
    REQUIRE(before.keep_incarnation({2}).ok());
    CHECK(*before.next_sequence() == 1);
    JobJournal after(store);
    CHECK(*after.last_incarnation() == Incarnation{2});
    CHECK(*after.next_sequence() == 2);
  }

  TEST_CASE("a damaged record is an error that names the job") {
    MemoryKeyValueStore store;
    JobJournal journal(store);
    REQUIRE(journal.save(sample("good", 1)).ok());
    WriteBatch batch;
    batch.put(KeyBuilder("job").text("bad").key(), "\x01garbage");
    REQUIRE(store.write(batch, Durability::kSynced).ok());
    const auto records = journal.load_all();
    REQUIRE_FALSE(records.ok());
    CHECK(records.error().message.find("\"bad\"") != std::string::npos);
  }

  TEST_CASE("values that are not allowed are refused") {
    JobRecord record = sample("a", 1);
    record = sample("a", 1);
    std::swap(record.pinned->counts[0], record.pinned->counts[1]);
    CHECK_FALSE(decode_job_record(encode_job_record(record), "a").ok());
    record = sample("a", 1);
    record.pinned->counts[0].count = 0;
    CHECK_FALSE(decode_job_record(encode_job_record(record), "a").ok());
    record = sample("a", 1);
    record.known[1].incarnation = {};
    CHECK_FALSE(decode_job_record(encode_job_record(record), "a").ok());
  }

  TEST_CASE("ten thousand mutated records give an error or a record") {
    std::mt19937_64 random(seed("job record mutations"));
    const std::string bytes = encode_job_record(sample("a", 1));
    for (int round = 0; round < 10'000; ++round) {
      const std::string changed = mutate(bytes, random);
      const auto record = decode_job_record(changed, "a");
      if (record.ok()) REQUIRE(encode_job_record(*record) == changed);
    }
    for (std::size_t size = 0; size < bytes.size(); ++size)
      CHECK_FALSE(decode_job_record(bytes.substr(0, size), "a").ok());
  }

  TEST_CASE("states have readable names") {
    CHECK(std::string(state_name(JobState::kQueued)) == "queued");
    CHECK(std::string(state_name(JobState::kCancelled)) == "cancelled");
    CHECK_FALSE(is_over(JobState::kPaused));
    CHECK(is_over(JobState::kFinished));
  }
}
