#pragma once
// QueueShares: decayed fair share (scheduler/policy/common/fair_share.h). Once in a period every
// job is charged to its queue for the devices that it has held, and the queues are ordered anew. A
// part of ClusterCore, pure. Times are seconds on the clock of the events, which never decrease.
// Without queues or without a half-life it does nothing. Not thread-safe.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "scheduler/policy/common/fair_share.h"
#include "scheduler/policy/common/policy.h"

namespace es::actors {

class QueueShares {
 public:
  // `limits` outlive the object.
  explicit QueueShares(const cluster::Limits& limits);

  bool is_on() const { return shares_.has_value(); }
  void restore(const cluster::UsageRestored& event, double now_s);
  // Charges the queue of a job for what it has used. `charged_device_s`: for how much of its
  // attained service it was charged before; the new sum is written there.
  void charge(const scheduler::JobView& view, double& charged_device_s, double now_s);
  // Whether a period has passed since it was true last: all jobs are to be charged, and then
  // rank() is to be called.
  bool is_due(double now_s);
  // Orders the queues anew. Returns whether a level has changed.
  bool rank(double now_s);
  // 0 while there is no fair share.
  std::uint32_t level(const std::string& queue) const {
    return shares_ ? shares_->level(queue) : 0;
  }
  // A queue that uses nothing comes forward without an event, so the policy is asked again then,
  // while a job holds devices or waits for them. Infinity: there is no fair share.
  double next_s(double now_s) const;
  // With fair share the weights order the queues by what they have used, and divide nothing else.
  void clear_weights(std::vector<scheduler::Queue>& queues) const;

  // As those of ClusterCore.
  std::optional<std::vector<std::pair<std::string, double>>> take_usage();
  struct View {
    double device_seconds = 0;
    std::uint32_t level = 0;
  };
  std::optional<View> of(const std::string& queue) const;

 private:
  const cluster::Limits& limits_;
  std::optional<scheduler::FairShare> shares_;
  double shared_s_ = 0;         // when is_due() was true last
  bool usage_changed_ = false;  // since the last take_usage()
};

}  // namespace es::actors
