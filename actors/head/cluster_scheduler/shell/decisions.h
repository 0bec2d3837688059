#pragma once
// Decisions: when the policy is asked. It owns ClusterCore, gives it the events, and has the
// effects performed in order. One decision serves all events until its time; only the earliest
// planned decision counts.
//
// Times are seconds of `now_s`. It uses no timer of its own. Used by one actor.
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/base/protocol/core/step_times.h"
#include "actors/head/cluster_scheduler/core/cluster_core.h"

namespace es::actors {

class Decisions {
 public:
  struct Options {
    std::unique_ptr<scheduler::Policy> policy;
    cluster::Limits limits;
    // Events within this time make one decision; 0: the events of one moment.
    std::chrono::nanoseconds delay{0};
    std::function<double()> now_s;
    // Measures how long decisions take; empty: they are not measured.
    std::function<double()> stopwatch_s;
  };
  // What a decision leaves to be written.
  struct Outcome {
    // As ClusterCore::take_usage() and take_ended_claims().
    std::optional<std::vector<std::pair<std::string, double>>> usage;
    std::vector<std::string> ended_claims;
  };
  struct Ports {
    std::function<void(const cluster::Effect&)> perform;
    // Calls on_time(due_s) after `wait`, which is at due_s. Such a call cannot be withdrawn.
    std::function<void(std::chrono::nanoseconds wait, double due_s)> wake;
    // Called after the effects of each decision were performed.
    std::function<void(const Outcome&)> decided;
  };
  Decisions(Options options, Ports ports);

  const ClusterCore& core() const { return core_; }
  const DecisionTimes& times() const { return times_; }

  // The policy is asked soon.
  void take(const cluster::Event& event);
  // The policy is asked at once.
  void take_now(const cluster::Event& event);
  // The policy is not asked. The caller calls decide_now() when it has given all events.
  void record(const cluster::Event& event);
  // The policy is asked at once. A decision that was planned for later is void.
  void decide_now() { on_time(due_s_); }
  // The time of a planned decision has come. If an earlier one has replaced it, nothing happens.
  void on_time(double due_s);

 private:
  void plan(double due_s);
  void perform(const std::vector<cluster::Effect>& effects) const;

  ClusterCore core_;
  const std::chrono::nanoseconds delay_;
  const std::function<double()> now_s_;
  const std::function<double()> stopwatch_s_;
  const Ports ports_;
  double due_s_ = scheduler::kNever.count();  // time of the next planned decision
  DecisionTimes times_;
};

}  // namespace es::actors
