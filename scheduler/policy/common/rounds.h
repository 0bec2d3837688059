#pragma once
// What the round-based policies share. Time is divided into rounds of equal length. The decision at
// the begin of a round gives every device anew. Between two such decisions a job keeps what it
// holds, and devices that become idle go to jobs that wait; so does a device that is granted late,
// because a job had to leave it first.
//
// A policy is a function of the view, so nothing remembers which round was planned: a decision
// plans a new round if it falls into the first part of it (kOpenPart), and in it jobs whose devices
// have changed in this round keep them. Policies ask to be called at the begin of every round.
#include <span>
#include <vector>

#include "scheduler/policy/common/carry_out.h"
#include "scheduler/policy/common/targets.h"

namespace es::scheduler {

class Rounds {
 public:
  // `order`: the slots of all jobs, the most important one first.
  Rounds(const ClusterTable& table, double round_s, std::span<const std::size_t> order);

  // Whether every device is given anew.
  bool is_open() const { return is_open_; }
  // Whether the job may be given something: it is not pinned and does not keep what it holds.
  bool can_give(const JobRow& row) const { return !row.pinned && !kept_[row.slot]; }
  const Counts& left() const { return targets_.left(); }
  bool is_anything_left() const { return total(left()) > 0; }
  // The devices of this type that are left for the job, with those that it would give back.
  std::uint32_t left_for(const JobRow& row, std::size_t t) const {
    return targets_.left()[t] + targets_.of(row.slot)[t];
  }
  // Gives the job these devices and nothing else. Returns false, without a change, if they are not
  // left.
  bool give(const JobRow& row, std::span<const std::uint32_t> counts);
  // The decisions. Jobs that were given nothing give back what they hold.
  Decisions finish();

 private:
  void keep(const JobRow& row);

  const ClusterTable& table_;
  const std::span<const std::size_t> order_;
  Targets targets_;
  std::vector<bool> kept_;  // by slot
  double next_s_ = kNeverS;
  bool is_open_ = false;
};

// The slots of all jobs by priority, then by submit order.
std::vector<std::size_t> by_priority(const ClusterTable& table);
// Orders the slots of one priority after the other by what the jobs have had of their 1/n share of
// the time since their submission, the smallest part first.
void sort_by_share(const ClusterTable& table, std::vector<std::size_t>& slots);

}  // namespace es::scheduler
