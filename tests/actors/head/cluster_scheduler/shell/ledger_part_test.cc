#include "actors/head/cluster_scheduler/shell/ledger_part.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "store/kv/memory_key_value_store.h"

namespace es::actors {
namespace {

constexpr std::size_t kLosses = 1000;

struct Bench {
  explicit Bench(Version versions) {
    JobRecord record;
    record.id = "job-1";
    record.spec_toml = "name = 'job'";
    record.start_checkpoint = "/from";
    REQUIRE(store.save(record).ok());
    for (Version version = 1; version <= versions; ++version)
      REQUIRE(
          store.ledger()
              .append(record.id, {version, std::vector<float>(kLosses, 0.5F), Digest{1, version}})
              .ok());
  }
  LedgerPart part(Version begin, Version end) {
    return ledger_part(store, "job-1", begin, end).value().value();
  }
  HeadStore store{std::make_unique<store::MemoryKeyValueStore>()};
};

TEST_SUITE("cluster_scheduler/ledger_part") {
  TEST_CASE("a long ledger is read in parts that follow each other without a gap") {
    Bench bench(200);
    Version begin = 1;
    std::vector<Version> versions;
    int parts = 0;
    while (true) {
      const LedgerPart part = bench.part(begin, 1000);
      ++parts;
      CHECK(part.spec_toml == "name = 'job'");
      CHECK(part.start_checkpoint == "/from");
      for (const store::LedgerLine& line : part.lines) versions.push_back(line.version);
      if (!part.next) break;
      begin = *part.next;
    }
    REQUIRE(versions.size() == 200);
    for (Version version = 1; version <= 200; ++version) CHECK(versions[version - 1] == version);
    // 65 lines of 1008 numbers fit in 64 Ki; the last part is empty.
    CHECK(parts == 5);
  }

  TEST_CASE("a range that ends inside the ledger names no next part") {
    Bench bench(10);
    const LedgerPart part = bench.part(3, 6);
    CHECK(part.lines.size() == 3);
    CHECK(part.next == std::nullopt);
    CHECK(bench.part(11, 20).lines.empty());
  }

  TEST_CASE("there is no part of an unknown job") {
    Bench bench(1);
    const auto part = ledger_part(bench.store, "other", 1, 2);
    REQUIRE(part.ok());
    CHECK_FALSE(part->has_value());
  }

  TEST_CASE("losses and digests keep their bits on the wire") {
    Bench bench(1);
    const auto message = Msg<wire::LedgerPart>::build(
        {}, [&](wire::LedgerPart::Builder b) { put(b, bench.part(1, 2)); });
    auto view = message.view();
    REQUIRE(view->getLines().size() == 1);
    const auto line = view->getLines()[0];
    CHECK(line.getVersion() == 1);
    CHECK(line.getLossBits().size() == kLosses);
    CHECK(line.getLossBits()[0] == 0x3f000000);
    CHECK(line.getParams().getHigh() == 1);
    CHECK(line.getParams().getLow() == 1);
  }
}

}  // namespace
}  // namespace es::actors
