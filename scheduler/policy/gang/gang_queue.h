#pragma once
// GangQueue decides for `srtf` (gang.h) without looking at every job.
//
// The gang of a job is of one type, so each type is decided on its own. The key of a running job is
// its end, which does not change as time passes; the key of an idle job is its
// remaining time, which does not change either. Both kinds are kept sorted, and a decision merges
// them. Of running jobs it only needs the devices held by those before some other job. Of waiting
// jobs with equal numbers of devices it needs none after the first one that does not fit.
//
// The queue handles jobs that run on their gang or hold nothing, and may be suspended. While there
// are other jobs (has_others), the caller must decide in another way. Not thread-safe.
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/policy/common/service_queue.h"

namespace es::scheduler {

// What sorts the jobs under srtf, ascending: higher priority, less remaining time, running
// jobs first, submit order.
struct GangKey {
  std::int64_t priority_rank = 0;
  double end_s = 0;        // end on its gang from now on, or as it runs
  bool is_idle = false;    // makes no progress
  double remaining_s = 0;  // remaining seconds; 0 for a running job
  std::uint64_t number = 0;
  auto operator<=>(const GangKey&) const = default;
};
// `gang` is one of the job's gangs_of(). A job that holds other devices is idle.
GangKey gang_key(const ClusterTable& table, const JobRow& row, const Counts& gang);

class GangQueue {
 public:
  // Reads the rows that the table wrote in its last update. REQUIRES: called after every update of
  // the table.
  void update(const ClusterTable& table);
  bool has_others() const { return others_ > 0; }
  // REQUIRES: not has_others().
  Decisions decide(const ClusterTable& table);

 private:
  enum class State : std::uint8_t { kAbsent, kRuns, kPaused, kWaits, kOther };
  struct Entry {
    State state = State::kAbsent;
    std::size_t type = 0;
    std::uint32_t devices = 0;
    QueueEntry queue_entry;
    double from_s = 0;  // for kPaused: the time from which it runs
  };
  using EntrySet = std::set<QueueEntry>;
  struct Queue {
    ServiceQueue running;  // by end_s
    EntrySet paused;       // by remaining_s
    std::map<std::uint32_t, EntrySet>
        waiting;  // by devices, then by remaining_s; without empty sets
  };
  friend class QueueWalk;

  void write(const ClusterTable& table, std::size_t slot);
  void enter(std::size_t slot);
  void erase(std::size_t slot);

  std::vector<Entry> entries_;                       // by slot
  std::vector<Queue> queues_;                        // by type
  std::set<std::pair<double, std::size_t>> pauses_;  // from_s and slot of paused jobs
  std::size_t others_ = 0;
};

}  // namespace es::scheduler
