#include "store/journal/claim_journal.h"

#include <doctest/doctest.h>

#include "store/kv/memory_key_value_store.h"

using namespace es;
using namespace es::store;

TEST_SUITE("store/journal/claim_journal") {
  TEST_CASE("claims stay until they are released, one by one") {
    MemoryKeyValueStore store;
    ClaimJournal claims(store);
    const ClaimRecord web{"web", {"cpu-avx2"}, 2};
    const ClaimRecord night{"night", {"cpu-avx512"}, 1};
    REQUIRE(claims.save(web).ok());
    REQUIRE(claims.save(night).ok());
    CHECK(ClaimJournal(store).load_all().value() == std::vector{night, web});
    REQUIRE(claims.erase("web").ok());
    CHECK(claims.erase("web").ok());
    CHECK(claims.load_all().value() == std::vector{night});
  }
}
