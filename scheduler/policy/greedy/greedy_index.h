#pragma once
// GreedyIndex answers the questions of `easyscale` (greedy.h) about the jobs of a view. It is kept
// from one decision to the next, so a decision need not look at every job. Not thread-safe.
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/common/policy.h"

namespace es::scheduler {

class GreedyIndex {
 public:
  // Number and slot, so that sets are in submit order.
  using Job = std::pair<std::uint64_t, std::size_t>;

  // With `homogeneous`, no job mixes types.
  explicit GreedyIndex(bool homogeneous) : homogeneous_(homogeneous) {}

  // Reads the view: all of it, or what it lists as changed.
  void update(const ClusterView& view);

  // Jobs that lack something they must have. All jobs of a group have the same chance: devices that
  // do not suffice for one of them do not suffice for the others.
  const std::map<std::string, std::set<Job>>& waiting() const { return waiting_; }
  // Pinned jobs that have what they are pinned to.
  const std::set<Job>& pinned() const { return pinned_; }

  // Devices that may be called back. This is an upper bound: an extra device of a job with two
  // types counts for both.
  const DeviceSet& extras() const { return extras_; }
  // The job that holds the type and has the most devices beyond its minimum; of equals the one
  // submitted last.
  std::optional<std::size_t> most_extra(const DeviceType& type) const;
  // Treats the job as if it held `held` and not what the view says, until the decision is complete.
  void hold(const ClusterView& view, std::size_t slot, const DeviceSet& held);

  // A proposal that may be granted: its job has settled and has its minimum, is not pinned, and may
  // have this many more devices of the type.
  struct Candidate {
    double gain = 0;  // per device
    Job job;
    // For the same type and count, the best first.
    bool operator<(const Candidate& o) const {
      return gain != o.gain ? gain > o.gain : job < o.job;
    }
  };
  using Kind = std::pair<DeviceType, std::uint32_t>;  // type and count
  const std::map<Kind, std::set<Candidate>>& candidates() const { return candidates_; }

 private:
  // The places at which a slot is entered.
  struct Entry {
    Job job;
    bool is_present = false;
    std::string group;  // in waiting_; empty if it is not there
    DeviceSet held;     // the devices with which extras_ and holders_ contain it
    std::uint32_t extra = 0;
    std::vector<std::pair<Kind, Candidate>> candidates;
  };
  using Holder = std::pair<std::uint32_t, Job>;  // extra devices of the job

  void write(const ClusterView& view, std::size_t slot);
  void erase(std::size_t slot);
  void enter_extra(Entry& entry, const JobView& job, const DeviceSet& held);
  void erase_extra(Entry& entry);
  void enter_candidates(Entry& entry, const JobView& job);

  const bool homogeneous_;
  std::vector<Entry> entries_;  // by slot
  std::map<std::string, std::set<Job>> waiting_;
  std::set<Job> pinned_;
  DeviceSet extras_;
  std::map<DeviceType, std::set<Holder>> holders_;  // jobs with extra devices; without empty sets
  std::map<Kind, std::set<Candidate>> candidates_;  // without empty sets
};

// Whether the job lacks a part of its pinned demand or of its minimum.
bool lacks_something(const JobView& job);
// What the job gives back if it gets what it proposed: its slowest devices of other types, as many
// as it would hold beyond max_devices.
DeviceSet replaced_by(const Proposal& proposal, const JobView& job);
// The allowed types that the job can still add: all, or only the one that it has.
std::vector<DeviceType> addable_types(const JobView& job, bool mix_types);

}  // namespace es::scheduler
