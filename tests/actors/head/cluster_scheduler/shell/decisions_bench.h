#pragma once
// Decisions with a clock that a test sets, and without timers: what is performed and planned is
// noted.
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "scheduler/policy/common/policy.h"

namespace es::test {

// Gives no devices, counts how often it is asked, and wants to be asked again at a fixed time.
class IdlePolicy final : public scheduler::Policy {
 public:
  IdlePolicy(int& asked, const double& again_s) : asked_(asked), again_s_(again_s) {}
  scheduler::Decisions decide(const scheduler::ClusterView&) override {
    ++asked_;
    scheduler::Decisions none;
    none.again_at = scheduler::Seconds(again_s_);
    return none;
  }

 private:
  int& asked_;
  const double& again_s_;
};

struct DecisionsBench {
  explicit DecisionsBench(std::chrono::nanoseconds delay = {}, actors::cluster::Limits limits = {})
      : decisions({.policy = std::make_unique<IdlePolicy>(asked, again_s),
                   .limits = std::move(limits),
                   .delay = delay,
                   .now_s = [this] { return now_s; },
                   .stopwatch_s = {}},
                  {.perform = [this](const auto& effect) { performed.push_back(effect); },
                   .wake =
                       [this](auto wait, double due_s) {
                         wakes.push_back({wait, due_s});
                       },
                   .decided = [this](const auto& outcome) { outcomes.push_back(outcome); }}) {}

  actors::ClusterClock clock() {
    return {.now_s = [this] { return now_s; }, .unix_ms = [this] { return unix_ms; }};
  }

  double now_s = 100;
  std::uint64_t unix_ms = 1'000'000;
  int asked = 0;  // the policy
  double again_s = scheduler::kNever.count();
  std::vector<actors::cluster::Effect> performed;
  std::vector<std::pair<std::chrono::nanoseconds, double>> wakes;
  std::vector<actors::Decisions::Outcome> outcomes;
  actors::Decisions decisions;
};

}  // namespace es::test
