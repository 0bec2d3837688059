#pragma once
// Random cluster views and random histories of them. They contain every state that a cluster can be
// in under any policy.
#include <random>

#include "scheduler/policy/common/policy.h"

namespace es::test {

class RandomViews {
 public:
  explicit RandomViews(std::uint64_t seed) : random_(seed) {}

  std::uint32_t draw(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_() % (high - low + 1));
  }
  bool one_in(std::uint32_t n) { return draw(1, n) == 1; }

  // Devices of up to three types, and up to `jobs_max` jobs of all kinds.
  scheduler::ClusterView view(std::uint32_t jobs_max);
  // Carries out the decisions and lets some time pass. Devices that were called back are then free
  // or still returning, jobs have settled or not, some have ended, and others have been submitted.
  // Lists the changed slots in `view.changed`.
  void advance(scheduler::ClusterView& view, const scheduler::Decisions& decisions);
  // The same cluster with its jobs in other slots.
  scheduler::ClusterView shuffled(const scheduler::ClusterView& view,
                                  std::vector<std::size_t>& new_slot_of);

 private:
  scheduler::JobView job(const scheduler::ClusterView& view);
  DeviceSet some(const DeviceSet& of);
  // A tree with limits and weights; "a" is a leaf of it.
  std::vector<scheduler::Queue> queues(const DeviceSet& total);
  void propose(scheduler::JobView& job, const DeviceSet& total);
  void refuse(scheduler::JobView& job, const DeviceSet& total);

  // The parts of advance().
  void advance_time(scheduler::ClusterView& view);
  void carry_out(scheduler::ClusterView& view, const scheduler::Decisions& decisions,
                 std::vector<std::size_t>& changed);
  // The job begins to train on the devices that it holds now.
  void adopt_devices(const scheduler::ClusterView& view, scheduler::JobView& job);
  // Ends the job of the slot, changes it, or submits one there, or does nothing. Returns whether
  // the slot has changed.
  bool change_slot(scheduler::ClusterView& view, std::size_t slot);
  static void end_job(scheduler::ClusterView& view, scheduler::JobView& job);
  void change_demand(const scheduler::ClusterView& view, scheduler::JobView& job);
  void lose_node(scheduler::ClusterView& view, scheduler::JobView& job);

  std::mt19937_64 random_;
  std::uint64_t jobs_ = 0;
};

}  // namespace es::test
