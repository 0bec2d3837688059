#include "store/journal/job_history.h"

#include <doctest/doctest.h>

#include "store/kv/memory_key_value_store.h"

namespace es::store {

TEST_SUITE("store/journal/job_history") {
  TEST_CASE("a job that is removed leaves no record, and others do not change") {
    MemoryKeyValueStore store;
    JobHistory history(store);
    for (const char* job : {"net", "net2"}) {
      REQUIRE(history.save_evaluation(job, 7, "totals").ok());
      REQUIRE(history.save_evaluation(job, 300, "more").ok());
      REQUIRE(history.save_final_state(job, Digest{1, 2}).ok());
      REQUIRE(history.save_end(job, "finished").ok());
    }
    WriteBatch batch;
    REQUIRE(history.add_removal("net", batch).ok());
    REQUIRE(store.write(batch, Durability::kSynced).ok());
    CHECK(history.evaluations("net")->empty());
    CHECK_FALSE(history.final_state("net")->has_value());
    CHECK_FALSE(history.end("net")->has_value());
    CHECK(history.evaluations("net2")->size() == 2);
    CHECK(*history.final_state("net2") == Digest{1, 2});
    CHECK(*history.end("net2") == "finished");
  }
}

}  // namespace es::store
