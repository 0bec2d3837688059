#include "store/journal/suspect_devices.h"

#include <doctest/doctest.h>

#include "store/kv/memory_key_value_store.h"

using namespace es;
using namespace es::store;

TEST_SUITE("store/journal/suspect_devices") {
  TEST_CASE("suspects stay until they are cleared, one by one") {
    MemoryKeyValueStore store;
    SuspectDevices suspects(store);
    const SuspectDevice first{"n", {"cpu-avx2"}, 0, "job a, step 5"};
    const SuspectDevice second{"n", {"cpu-avx2"}, 1, "job b"};
    REQUIRE(suspects.save(second).ok());
    REQUIRE(suspects.save(first).ok());
    SuspectDevice again = first;
    again.reason = "job c";
    REQUIRE(suspects.save(again).ok());
    CHECK(SuspectDevices(store).load_all().value() == std::vector{again, second});
    REQUIRE(suspects.clear({"n", {"cpu-avx2"}, 1, ""}).ok());
    CHECK(suspects.clear({"m", {"cpu-avx2"}, 1, ""}).ok());
    CHECK(suspects.load_all().value() == std::vector{again});
  }
}
