#include "actors/kubernetes/core/lease.h"

#include <doctest/doctest.h>

using namespace es::actors::kubernetes;
using std::chrono::seconds;

namespace {

const LeaseHolder::Time kStart{};

Json stored(Json written, int version) {
  written["metadata"]["resourceVersion"] = std::to_string(version);
  return written;
}

}  // namespace

TEST_SUITE("actors/kubernetes/core/lease") {
  TEST_CASE("the second one waits until the first one has not renewed for its duration") {
    LeaseHolder first("a"), second("b");
    auto lease = first.decide({}, kStart, "t0");
    REQUIRE(lease);
    first.written(kStart);
    Json now = stored(*lease, 1);
    CHECK(first.holds(kStart + seconds(9)));
    CHECK(!second.decide(now, kStart + seconds(1), "t1"));
    // A renewal begins the time of the second one anew.
    lease = first.decide(now, kStart + seconds(6), "t6");
    REQUIRE(lease);
    first.written(kStart + seconds(6));
    now = stored(*lease, 2);
    CHECK(!second.decide(now, kStart + seconds(7), "t7"));
    CHECK(!second.decide(now, kStart + seconds(21), "t21"));
    // Before the second one takes it, the first one has stopped by itself.
    CHECK(!first.holds(kStart + seconds(16)));
    lease = second.decide(now, kStart + seconds(22), "t22");
    REQUIRE(lease);
    CHECK((*lease)["spec"]["holderIdentity"] == "b");
    CHECK((*lease)["spec"]["leaseTransitions"] == 1);
    CHECK((*lease)["metadata"]["resourceVersion"] == "2");
    second.written(kStart + seconds(22));
    CHECK(second.holds(kStart + seconds(22)));
    // The first one sees it, even if it believed to hold it.
    first.written(kStart + seconds(22));
    CHECK(!first.decide(stored(*lease, 3), kStart + seconds(23), "t23"));
    CHECK(!first.holds(kStart + seconds(23)));
  }

  TEST_CASE("a lease that was given back is taken at once") {
    LeaseHolder second("b");
    const Json given{{"metadata", {{"resourceVersion", "5"}}}, {"spec", {{"holderIdentity", ""}}}};
    CHECK(second.decide(given, kStart, "t0"));
  }
}
