#include "store/journal/usage_journal.h"

#include <doctest/doctest.h>

#include "store/kv/memory_key_value_store.h"

namespace es::store {

TEST_SUITE("store/journal/usage_journal") {
  TEST_CASE("what queues have used is read back as it was written last") {
    MemoryKeyValueStore store;
    UsageJournal usage(store);
    CHECK(usage.load_all().value().empty());
    REQUIRE(usage.save({{"vision", 1.5, 1000}, {"speech", 0.25, 1000}}).ok());
    REQUIRE(usage.save({{"vision", 3, 2000}}).ok());
    CHECK(UsageJournal(store).load_all().value() ==
          std::vector<UsageRecord>{{"speech", 0.25, 1000}, {"vision", 3, 2000}});
  }

  TEST_CASE("damaged usage is an error") {
    CHECK_FALSE(decode_usage("garbage").ok());
    CHECK_FALSE(decode_usage("").ok());
  }
}

}  // namespace es::store
