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
  std::span<const std::uint32_t> of(std::size_t slot) const {
    return std::span(wanted_).subspan(slot * types_, types_);
  }
  bool is_empty(std::size_t slot) const;
  // Replaces the target of the job. REQUIRES: left() and its old target together cover the new one.
  void set(std::size_t slot, std::span<const std::uint32_t> counts);
  // Lets the job, which has no target yet, keep what it holds. Returns false, without a change, if
  // not all of that is left.
  bool keep(const ClusterTable& table, std::size_t slot);
  // Takes the devices of jobs that keep what they hold, without giving these jobs targets.
  // REQUIRES: these devices are left, and the targets of these jobs are not used.
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
  std::size_t types_ = 0;
  Counts left_;
  std::vector<std::uint32_t> wanted_;  // by slot and type
  std::vector<std::size_t> targeted_;  // slots whose target may not be 0
  std::vector<std::size_t> order_;
};

// Sets the targets that precede any policy. Elastic jobs that may not be suspended keep their
// minimum. Then pinned jobs that can be served get their demand; other pinned jobs keep what they
// hold and reserve nothing. `order` contains the slots of all jobs in the order in which they are
// served.
void set_fixed_targets(const ClusterTable& table, std::span<const std::size_t> order,
                       Targets& targets);
// Whether set_fixed_targets() may set any. If not, the order does not matter to it.
bool has_fixed_targets(const ClusterTable& table);

}  // namespace es::scheduler
