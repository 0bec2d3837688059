#pragma once
// Policy: which job gets which of the cluster's devices. A pure function from what the cluster
// looks like to what shall change; the ClusterScheduler calls it after every event and carries its
// decisions out. Add a policy by one file with one class.
//
// The rules that every policy keeps (check_decisions):
//
//   free      the grants of a type together are at most the free devices of that type
//   pinned    the job is granted exactly pinned - held (type by type), or nothing; it is never
//             shrunk: what it holds beyond, it gives back by itself once it can do without
//   elastic   a grant is what is missing to min_devices, of allowed types, or one of its proposals;
//             afterwards it holds at most max_devices, and one type only without mix_types
//   shrink    leaves an elastic job at least min_devices; a job that shrinks is granted nothing
//   minimum   a proposal is granted only to a job that already holds min_devices
#include <optional>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "scheduler/proposal.h"

namespace es::scheduler {

struct JobView {
  JobId id;
  DeviceSet held;                   // devices that it may hold; those it is giving back excluded
  std::uint32_t min_devices = 1;    // >= 1
  std::uint32_t max_devices = 1;    // >= min_devices
  std::vector<DeviceType> types;    // that the scheduler may choose for it, ascending
  bool mix_types = false;           // may hold more than one type at a time
  std::optional<DeviceSet> pinned;  // a stage or an explicit scale: exactly these (empty: none)
  std::vector<Proposal> proposals;  // relative to held; empty once one of them was granted
};

struct ClusterView {
  DeviceSet free;             // can be granted now
  DeviceSet returning;        // on their way back from jobs: will be free without any decision
  std::vector<JobView> jobs;  // in submit order: earlier submitted first
};

struct Change {
  JobId job;
  DeviceSet devices;  // not empty
  bool operator==(const Change&) const = default;
};

// At most one grant and one shrink per job.
struct Decisions {
  std::vector<Change> grants;   // so many devices more
  std::vector<Change> shrinks;  // so many devices fewer; they come back later
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Deterministic: the same view gives the same decisions. Thread-safe.
  virtual Decisions decide(const ClusterView& view) const = 0;
};

// Ok when the decisions keep the rules above; else which rule is broken, for which job.
Status check_decisions(const ClusterView& view, const Decisions& decisions);

}  // namespace es::scheduler
