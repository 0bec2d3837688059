#include "actors/head/cluster_scheduler/shell/decisions.h"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

#include "tests/actors/head/cluster_scheduler/shell/decisions_bench.h"

namespace es::actors {
namespace {

using test::DecisionsBench;

cluster::NodeJoined joined(const std::string& node) {
  return {.node = node, .devices = *parse_device_set("a:2")};
}

TEST_SUITE("cluster_scheduler/decisions") {
  TEST_CASE("events within the delay make one decision") {
    DecisionsBench bench(std::chrono::seconds(2));
    bench.decisions.take(joined("n"));
    bench.now_s = 101;
    bench.decisions.take(joined("m"));
    CHECK(bench.asked == 0);
    REQUIRE(bench.wakes.size() == 1);
    CHECK(bench.wakes[0].first == std::chrono::seconds(2));
    CHECK(bench.wakes[0].second == 102);
    bench.now_s = 102;
    bench.decisions.on_time(102);
    CHECK(bench.asked == 1);
    CHECK(bench.outcomes.size() == 1);
    bench.decisions.on_time(102);
    CHECK(bench.asked == 1);
  }

  TEST_CASE("a decision at once makes the planned one void") {
    DecisionsBench bench(std::chrono::seconds(2));
    bench.decisions.take(joined("n"));
    bench.decisions.take_now(joined("m"));
    CHECK(bench.asked == 1);
    bench.decisions.on_time(102);
    CHECK(bench.asked == 1);
    CHECK(bench.decisions.core().existing_devices() == *parse_device_set("a:4"));
  }

  TEST_CASE("an event that is only recorded plans nothing") {
    DecisionsBench bench;
    bench.decisions.record(joined("n"));
    CHECK(bench.wakes.empty());
    bench.decisions.decide_now();
    CHECK(bench.asked == 1);
  }

  TEST_CASE("an earlier decision replaces a planned one, and a later one does not") {
    DecisionsBench bench(std::chrono::seconds(2));
    bench.again_s = 100.5;
    bench.decisions.take_now(joined("n"));
    REQUIRE(bench.wakes.size() == 1);
    CHECK(bench.wakes[0].second == 100.5);
    bench.decisions.take(joined("m"));
    CHECK(bench.wakes.size() == 1);
    bench.decisions.on_time(102);
    CHECK(bench.asked == 1);
    bench.now_s = 100.5;
    bench.again_s = scheduler::kNever.count();
    bench.decisions.on_time(100.5);
    CHECK(bench.asked == 2);
    CHECK(bench.wakes.size() == 1);
  }

  TEST_CASE("the policy is asked again a tenth of a second later at the earliest") {
    DecisionsBench bench;
    bench.again_s = 100.001;
    bench.decisions.take_now(joined("n"));
    REQUIRE(bench.wakes.size() == 1);
    CHECK(bench.wakes[0].second == 100.1);
  }

  TEST_CASE("refusals are performed before the policy is asked") {
    DecisionsBench bench;
    bench.decisions.record(joined("n"));
    bench.decisions.record(cluster::JobAdmitted{.job = "j", .resources = {.min_devices = 3}});
    bench.decisions.take(cluster::FromJob{"j", protocol::Demand{}});
    REQUIRE(bench.performed.size() == 1);
    CHECK(bench.performed.front().job == "j");
    CHECK(std::holds_alternative<protocol::DemandRefused>(bench.performed.front().message));
    CHECK(bench.asked == 0);
  }

  TEST_CASE("reservations that have ended are reported with the decision") {
    DecisionsBench bench;
    bench.decisions.take_now(joined("n"));
    bench.decisions.take_now(
        cluster::ClaimMade{.name = "c", .type = {"a"}, .count = 1, .begin_s = 100, .end_s = 110});
    bench.now_s = 111;
    bench.decisions.decide_now();
    CHECK(bench.outcomes.back().ended_claims == std::vector<std::string>{"c"});
  }

  TEST_CASE("decisions are measured with the stopwatch, if there is one") {
    double watch_s = 0;
    int asked = 0;
    const double never_s = scheduler::kNever.count();
    Decisions decisions({.policy = std::make_unique<test::IdlePolicy>(asked, never_s),
                         .limits = {},
                         .delay = {},
                         .now_s = [] { return 1.0; },
                         .stopwatch_s = [&] { return watch_s += 0.25; }},
                        {.perform = [](const auto&) {},
                         .wake = [](auto, double) {},
                         .decided = [](const auto&) {}});
    decisions.take_now(joined("n"));
    CHECK(decisions.times().seconds == 0.25);
    DecisionsBench unmeasured;
    unmeasured.decisions.take_now(joined("n"));
    CHECK(unmeasured.decisions.times().counts.empty());
  }
}

}  // namespace
}  // namespace es::actors
