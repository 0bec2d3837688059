#include "actors/base/protocol/core/growing_pauses.h"

#include <doctest/doctest.h>

#include <string>

namespace es::actors {
namespace {

constexpr Instant kStart = std::chrono::hours(1);

}  // namespace

TEST_SUITE("actors/base/protocol/growing_pauses") {
  TEST_CASE("each pause of a key is twice as long as the one before, up to a longest one") {
    GrowingPauses<std::string> pauses;
    Instant now = kStart, length = kPauseShortest;
    for (int i = 0; i < 14; ++i) {
      CHECK(pauses.failed("a", now) == now + length);
      CHECK(pauses.first_end(now) == now + length);
      CHECK(pauses.waits("a", now + length - Instant(1)));
      CHECK_FALSE(pauses.waits("a", now + length));
      CHECK_FALSE(pauses.waits("b", now));
      now += length;
      length = std::min(2 * length, kPauseLongest);
    }
    CHECK(length == kPauseLongest);
    CHECK_FALSE(pauses.first_end(now).has_value());
  }

  TEST_CASE("failures at the same time make one pause") {
    GrowingPauses<std::string> pauses;
    pauses.failed("a", kStart);
    CHECK(pauses.failed("a", kStart + Instant(1)) == kStart + kPauseShortest);
    CHECK(pauses.failed("a", kStart + kPauseShortest) == kStart + 3 * kPauseShortest);
  }

  TEST_CASE("what has worked, or has not failed for long, begins with the shortest pause again") {
    GrowingPauses<std::string> pauses;
    const auto fail_twice = [&] {
      pauses.failed("a", kStart);
      pauses.failed("a", kStart + kPauseShortest);
    };
    const Instant end = kStart + 3 * kPauseShortest;
    const Instant later = end + 2 * kPausesForgotten * kPauseShortest + Instant(1);
    fail_twice();
    CHECK(pauses.is_remembered("a", later - Instant(1)));
    CHECK_FALSE(pauses.is_remembered("a", later));
    CHECK(pauses.failed("a", later) == later + kPauseShortest);
    pauses.forget("a");
    CHECK_FALSE(pauses.is_remembered("a", later));
    fail_twice();
    pauses.forget("a");
    CHECK(pauses.failed("a", end) == end + kPauseShortest);
  }
}

}  // namespace es::actors
