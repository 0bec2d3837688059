#pragma once
// Targets are the devices that each job should have. A policy sets them for the supply of the
// table, the most important job first, as if every device could change hands at once. carry_out.h
// computes the decisions that lead there. Not thread-safe.
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/policy/common/cluster_table.h"

namespace es::scheduler {

class Targets {
 public:
  Targets() = default;
  explicit Targets(const ClusterTable& table) { begin(table); }
  // Sets all targets to nothing and `left` to the supply. The cost is that of the targets set since
  // the last call.
  void begin(const ClusterTable& table);

  // The devices that can still be given.
  const Counts& left() const { return left_; }
  // What the job may be given in place of its target: its target and what is left, as far as its
  // queue and the queues above that may have more.
  Counts choices_of(std::size_t slot) const;
  // The part of `counts` that the queue of the job may have beside its targets, without that of the
  // job itself.
  Counts within_queue(std::size_t slot, Counts counts) const;
  std::span<const std::uint32_t> of(std::size_t slot) const {
    return std::span(wanted_).subspan(slot * types_, types_);
  }
  bool is_empty(std::size_t slot) const;
  // Replaces the target of the job. REQUIRES: left() and its old target together cover the new one,
  // and the limits of its queue are kept, unless it may not be suspended and holds these devices.
  void set(std::size_t slot, std::span<const std::uint32_t> counts);
  // Lets the job, which has no target yet, keep what it holds. Returns false, without a change, if
  // not all of that is left, or is within the limits of its queue.
  bool keep(const ClusterTable& table, std::size_t slot);
  // Takes the devices of jobs that keep what they hold, without giving these jobs targets.
  // REQUIRES: these devices are left, the targets of these jobs are not used, and there are no
  // queues.
  void take(std::span<const std::uint32_t> counts);
  // Reserves as many of these devices as are left, so that no job is given them.
  void reserve(std::span<const std::uint32_t> counts);
  // Gives the pinned job this many more devices than it holds; what it holds is not in the supply.
  void add_pinned(const ClusterTable& table, std::size_t slot,
                  std::span<const std::uint32_t> missing);
  // Adds the job to the order of precedence; each job at most once. A job that is never added gives
  // back what it holds.
  void rank(std::size_t slot) { order_.push_back(slot); }
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  bool has_queues() const { return table_ != nullptr && table_->has_queues(); }
  std::uint32_t queue_of(std::size_t slot) const { return table_->rows()[slot].queue; }

  const ClusterTable* table_ = nullptr;
  std::size_t types_ = 0;
  Counts left_;
  QueueUse use_;  // of the targets, and of what pinned jobs keep; empty without queues
  std::vector<std::uint32_t> wanted_;  // by slot and type
  std::vector<std::size_t> targeted_;  // slots whose target may not be 0
  std::vector<std::size_t> order_;
};

// Sets the targets that precede any policy. Elastic jobs that may not be suspended keep their
// minimum, or what they have left of it. Then pinned jobs that can be served within the limits of
// their queues get their demand; other pinned jobs keep what they hold and reserve nothing. `order`
// contains the slots of all jobs in the order in which they are served.
void set_fixed_targets(const ClusterTable& table, std::span<const std::size_t> order,
                       Targets& targets);
// Whether set_fixed_targets() may set any. If not, the order does not matter to it.
bool has_fixed_targets(const ClusterTable& table);

}  // namespace es::scheduler
