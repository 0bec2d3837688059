#include "store/ledger/ledger.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "store/kv/memory_key_value_store.h"
#include "tests/store/mutate.h"
#include "tests/support/seed.h"

using namespace es;
using namespace es::store;
using namespace es::test;

namespace {

LedgerLine line(Version version, std::vector<float> losses = {2.5f, 1.25f, 0.1f}) {
  return {version, std::move(losses), Digest{version, 7}};
}

float from_bits(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// The error of appending `second` where `first` exists.
std::string conflict(const LedgerLine& first, const LedgerLine& second) {
  MemoryKeyValueStore store;
  Ledger ledger(store);
  REQUIRE(ledger.append("job", first).ok());
  const Status status = ledger.append("job", second);
  REQUIRE_FALSE(status.ok());
  CHECK(same_bits(*ledger.read("job", 0, 100)->begin(), first));
  return status.error().message;
}

}  // namespace

TEST_SUITE("store/ledger/ledger") {
  TEST_CASE("lines are read in order of version, for one job and one range") {
    MemoryKeyValueStore store;
    Ledger ledger(store);
    for (const Version version : {300, 2, 1, 256, 3}) {
      REQUIRE(ledger.append("job", line(version)).ok());
      REQUIRE(ledger.append("job2", line(version, {9.0f})).ok());
    }
    const auto lines = ledger.read("job", 2, 300);
    REQUIRE(lines.ok());
    REQUIRE(lines->size() == 3);
    CHECK(same_bits((*lines)[0], line(2)));
    CHECK(same_bits((*lines)[1], line(3)));
    CHECK(same_bits((*lines)[2], line(256)));
    CHECK(same_bits(**ledger.last("job"), line(300)));
    CHECK_FALSE(ledger.last("jo")->has_value());
  }

  TEST_CASE("a step that gives the same line again is no error") {
    MemoryKeyValueStore store;
    Ledger ledger(store);
    const LedgerLine odd{5, {from_bits(0x7fc00001), -0.0f}, std::nullopt};
    REQUIRE(ledger.append("job", odd).ok());
    CHECK(ledger.append("job", odd).ok());
  }

  TEST_CASE("a step that gives another bit the second time is an error that names the place") {
    const std::string loss = conflict(line(5), line(5, {2.5f, std::nextafter(1.25f, 2.0f), 0.1f}));
    CHECK(loss.find("job \"job\", version 5") != std::string::npos);
    CHECK(loss.find("not deterministic") != std::string::npos);
    CHECK(loss.find("loss of rank 1") != std::string::npos);
    CHECK(conflict({5, {0.0f}, {}}, {5, {-0.0f}, {}}).find("rank 0") != std::string::npos);
    CHECK(conflict({5, {from_bits(0x7fc00000)}, {}}, {5, {from_bits(0x7fc00001)}, {}})
              .find("rank 0") != std::string::npos);
    CHECK(conflict(line(5), line(5, {2.5f})).find("number of losses = 1: allowed is 3") !=
          std::string::npos);
    LedgerLine other_digest = line(5);
    other_digest.params_digest = Digest{5, 8};
    CHECK(conflict(line(5), other_digest).find("digest of the parameters") != std::string::npos);
    other_digest.params_digest.reset();
    CHECK(conflict(line(5), other_digest).find("= none: allowed is") != std::string::npos);
  }

  TEST_CASE("after a rewind a ledger accepts other lines") {
    MemoryKeyValueStore store;
    Ledger ledger(store);
    for (const Version version : {1, 2, 3}) REQUIRE(ledger.append("a", line(version)).ok());
    REQUIRE(ledger.append("ab", line(3)).ok());
    REQUIRE(ledger.rewind("a", 1).ok());
    CHECK((*ledger.last("a"))->version == 1);
    CHECK((*ledger.last("ab"))->version == 3);
    CHECK(ledger.append("a", line(2, {9.0f})).ok());
    CHECK_FALSE(ledger.append("a", line(1, {9.0f})).ok());
  }

  TEST_CASE("a range is read in parts") {
    MemoryKeyValueStore store;
    Ledger ledger(store);
    for (const Version version : {5, 6, 7}) REQUIRE(ledger.append("a", line(version)).ok());
    const auto part = ledger.read("a", 0, ~0ull, 2);
    REQUIRE(part.ok());
    REQUIRE(part->size() == 2);
    CHECK(part->back().version == 6);
  }

  TEST_CASE("removing a job removes its lines and no others") {
    MemoryKeyValueStore store;
    Ledger ledger(store);
    for (const Version version : {1, 2, 3}) {
      REQUIRE(ledger.append("a", line(version)).ok());
      REQUIRE(ledger.append("ab", line(version)).ok());
    }
    WriteBatch batch;
    REQUIRE(ledger.add_removal("a", batch).ok());
    REQUIRE(store.write(batch, Durability::kSynced).ok());
    CHECK(ledger.read("a", 0, ~0ull)->empty());
    CHECK(ledger.read("ab", 0, ~0ull)->size() == 3);
  }

  TEST_CASE("ten thousand mutated lines give an error or a line") {
    std::mt19937_64 random(seed("ledger mutations"));
    const std::string bytes = encode_ledger_line(line(5));
    for (int round = 0; round < 10'000; ++round) {
      const std::string changed = mutate(bytes, random);
      const auto decoded = decode_ledger_line(changed, 5, "line");
      if (decoded.ok()) REQUIRE(encode_ledger_line(*decoded) == changed);
    }
  }
}
