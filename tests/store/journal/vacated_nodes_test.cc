#include "store/journal/vacated_nodes.h"

#include <doctest/doctest.h>

#include "store/kv/memory_key_value_store.h"
#include "store/recovery/records.h"

using namespace es;
using namespace es::store;

TEST_SUITE("store/journal/vacated_nodes") {
  TEST_CASE("nodes stay until they are erased, and their records are checked") {
    MemoryKeyValueStore store;
    VacatedNodes nodes(store);
    REQUIRE(nodes.save({"n2", 1'795'453'200'000}).ok());
    REQUIRE(nodes.save({"n1", 5}).ok());
    REQUIRE(nodes.save({"n1", 7}).ok());
    CHECK(VacatedNodes(store).load_all().value() ==
          std::vector<VacatedNode>{{"n1", 7}, {"n2", 1'795'453'200'000}});
    CHECK(check_records(store).ok());
    REQUIRE(nodes.erase("n1").ok());
    CHECK(nodes.erase("n1").ok());
    CHECK(nodes.load_all().value().size() == 1);
    CHECK_FALSE(decode_vacated_node("x").ok());
  }
}
