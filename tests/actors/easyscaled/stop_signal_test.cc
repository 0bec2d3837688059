#include "actors/easyscaled/stop_signal.h"

#include <doctest/doctest.h>

using namespace es::actors;

TEST_SUITE("actors/easyscaled/stop_signal") {
  TEST_CASE("a cause that is already there counts more than a deadline that has passed") {
    auto stop = StopSignal::create(0);
    REQUIRE(stop.ok());
    const auto past = std::chrono::steady_clock::now() - std::chrono::seconds(1);
    CHECK(stop->wait(past) == StopSignal::Cause::kTimeout);
    stop->finish();
    CHECK(stop->wait(past) == StopSignal::Cause::kFinished);
  }
}
