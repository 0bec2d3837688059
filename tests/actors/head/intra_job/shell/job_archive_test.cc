#include "actors/head/intra_job/shell/job_archive.h"

#include <doctest/doctest.h>

#include <bit>

#include "store/kv/memory_key_value_store.h"

namespace es::actors {
namespace {

using protocol::LedgerLine;

LedgerLine line(Version version, float loss) {
  return {
      version, {std::bit_cast<std::uint32_t>(loss)}, digest_of(std::as_bytes(std::span("p"))), {}};
}

Refusal refusal() {
  Refusal refusal{.types = {{"b"}}};
  refusal.held.add({"a"}, 1);
  return refusal;
}

struct Bench {
  std::shared_ptr<HeadStore> store =
      std::make_shared<HeadStore>(std::make_unique<store::MemoryKeyValueStore>());
  JobArchive archive{store, {.id = "j", .refusals = {refusal()}}};
  intra_job::Config config;

  Bench() { config.last_version = 3; }
  StoredHistory stored() const { return read_history(*store, "j", config).value(); }
};

TEST_SUITE("actors/head/intra_job/job_archive") {
  TEST_CASE("the record of the core keeps the refusals, which are not the core's") {
    Bench b;
    b.archive.adopt({.id = "j", .state = JobState::kPaused}, 9);
    CHECK(b.archive.record().state == JobState::kPaused);
    CHECK(b.archive.record().refusals == std::vector{refusal()});
    REQUIRE(b.archive.save().ok());
    CHECK(**b.store->load("j") == b.archive.record());
    REQUIRE(b.archive.save_refusals({}).ok());
    CHECK((**b.store->load("j")).refusals.empty());
  }

  TEST_CASE("the end of a job has the date of the first record that says so") {
    Bench b;
    b.archive.adopt({.id = "j", .state = JobState::kRunning}, 8);
    CHECK(b.archive.ended_unix_ms() == 0);
    b.archive.adopt({.id = "j", .state = JobState::kFinished}, 9);
    b.archive.adopt({.id = "j", .state = JobState::kFinished}, 10);
    CHECK(b.archive.ended_unix_ms() == 9);
  }

  TEST_CASE("a restarted head reads the lines and the evaluations as they were added") {
    Bench b;
    const std::vector<std::byte> totals(3, std::byte{5});
    LedgerLine last = line(3, 0.25f);
    last.state = digest_of(std::as_bytes(std::span("s")));
    for (const LedgerLine& one : {line(1, 2.0f), line(2, 0.5f), last})
      REQUIRE(b.archive.append(one).ok());
    REQUIRE(b.archive.save_evaluation(2, totals).ok());

    const StoredHistory history = b.stored();
    REQUIRE(history.ledger.lines.size() == 3);
    CHECK(history.ledger.lines[0] == line(1, 2.0f));
    CHECK(history.ledger.lines[2] == line(3, 0.25f));
    CHECK(history.ledger.final_state == last.state);
    CHECK(history.evaluations == std::vector<std::pair<Version, std::string>>{{2, "\5\5\5"}});
    REQUIRE(history.ledger.evaluations.size() == 1);
    CHECK(history.ledger.evaluations[0].first == 2);
    CHECK(*history.ledger.evaluations[0].second == totals);
  }

  TEST_CASE("lines and evaluations after a version are removed together") {
    Bench b;
    for (const Version version : {1, 2, 3}) {
      REQUIRE(b.archive.append(line(version, 1)).ok());
      REQUIRE(b.archive.save_evaluation(version, {}).ok());
    }
    REQUIRE(b.archive.rewind(1).ok());
    CHECK(b.stored().ledger.lines.size() == 1);
    CHECK(b.stored().evaluations.size() == 1);
  }
}

}  // namespace
}  // namespace es::actors
