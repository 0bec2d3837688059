#include "store/journal/claim_journal.h"

#include <doctest/doctest.h>

#include "store/kv/memory_key_value_store.h"
#include "store/kv/record_codec.h"

using namespace es;
using namespace es::store;

TEST_SUITE("store/journal/claim_journal") {
  TEST_CASE("claims stay until they are released, one by one") {
    MemoryKeyValueStore store;
    ClaimJournal claims(store);
    const ClaimRecord web{"web", {"cpu-avx2"}, 2};
    const ClaimRecord night{"night",           {"cpu-avx512"},    1,
                            1'795'453'200'000, 1'795'453'260'000, "vision"};
    REQUIRE(claims.save(web).ok());
    REQUIRE(claims.save(night).ok());
    CHECK(ClaimJournal(store).load_all().value() == std::vector{night, web});
    REQUIRE(claims.erase("web").ok());
    CHECK(claims.erase("web").ok());
    CHECK(claims.load_all().value() == std::vector{night});
  }

  TEST_CASE("a claim of a release before there were reservations is read") {
    RecordWriter out(1);
    out.text("web");
    out.text("cpu-avx2");
    out.u32(2);
    CHECK(decode_claim(out.take()).value() == ClaimRecord{"web", {"cpu-avx2"}, 2});
    CHECK_FALSE(decode_claim("").ok());
    CHECK_FALSE(decode_claim("\3").ok());
  }
}
