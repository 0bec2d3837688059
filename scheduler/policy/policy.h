#pragma once
// Policy: which job gets which of the cluster's devices. A function from what the cluster looks
// like to what shall change; the ClusterScheduler calls it after every event and carries its
// decisions out. Add a policy by one file with one class and one line in registry.cc.
//
// A policy has no clock: time comes with the view, in seconds from an origin of the caller's
// choice. It must be a function of the view alone: a policy may keep an index over the last view to
// be fast, but then it answers what a new one would answer to the same view.
//
// The rules that every policy keeps (check_decisions). "After" means held - shrunk + granted.
//
//   free      the grants of a type together are at most the free devices of that type
//   pinned    the job is granted exactly pinned - held (type by type), or nothing; it is never
//             shrunk: what it holds beyond, it gives back by itself once it can do without
//   bounds    after, an elastic job holds nothing, or min_devices .. max_devices devices of allowed
//             types, of one type only without mix_types (what it held before is tolerated)
//   change    no type is both granted to a job and taken from it by one decision
//   grow      a job that holds its minimum is granted at most what it proposed of each type (a
//             proposal is void once its devices changed), or migrates
//   migrate   a job may be shrunk by all that it holds and be granted anything within the bounds
//   refused   no grant leaves an elastic job with devices that it refuses
//   start     a job that holds nothing is granted anything within the bounds, one that holds less
//             than its minimum what is missing to it
//   suspend   a job that may be suspended can be shrunk by all that it holds: it writes a
//             checkpoint, keeps its progress and its place in the submit order, and waits as one
//             that has not started. Else a shrink leaves min_devices.
//   settled   a job that has not adopted its last change yet (settled is false) is granted nothing,
//             unless it is below its minimum; it may be shrunk
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "scheduler/model.h"
#include "scheduler/proposal.h"
#include "scheduler/refusal.h"

namespace es::scheduler {

inline constexpr double kNever = std::numeric_limits<double>::infinity();

// How far a job is. A local step is one mini-batch of one EST; a global step is max_p of them.
// Written when something changes, not as time passes: remaining_steps_at() follows the job from
// as_of_s on, with what it holds.
struct Work {
  double total_steps = kNever;      // local steps of the whole job; kNever: not known
  double remaining_steps = kNever;  // local steps to do, at as_of_s
  double steps_per_s = 0;        // local steps per second with the devices that it uses now, >= 0
  double as_of_s = 0;            // when this was written
  double paused_until_s = 0;     // starting or rescaling: no step before this time
  double attained_device_s = 0;  // sum of devices x seconds that it has held, until as_of_s
};

struct JobView {
  JobId id;                    // empty: no job in this slot
  std::uint64_t number = 0;    // place in the submit order: unique, earlier submitted smaller
  double submit_s = 0;         // when it was submitted
  std::string tenant;          // "" = the tenant without a name
  int priority = 0;            // higher is served first, whatever the rest says
  double deadline_s = kNever;  // when it should be done

  // What it may hold.
  std::uint32_t min_devices = 1;    // >= 1: with fewer it does not run
  std::uint32_t max_devices = 1;    // >= min_devices
  std::vector<DeviceType> types;    // that the scheduler may choose for it, ascending
  bool mix_types = false;           // may hold more than one type at a time
  DeviceType gang_type;             // the one that its owner asked for, where policies do not scale
                                    // (max_devices of it, or nothing); no name: the fastest
  std::optional<DeviceSet> pinned;  // a stage or an explicit scale: exactly these (empty: none)
  bool may_suspend = true;          // may be left with nothing after it has started

  // What it has and asks for.
  DeviceSet held;  // devices that it may hold; those it is giving back excluded
  // Has adopted its last change of devices and answered with proposals, and what it holds and still
  // gives back is at most max_p devices.
  bool settled = true;
  std::vector<Proposal> proposals;  // relative to held; empty once one of them was granted
  std::vector<Refusal> refusals;    // each of what is at least min_devices

  // What it does with them. All measured where there is a measurement, else estimated.
  std::uint32_t max_p = 1;    // ESTs
  Capabilities capabilities;  // C_i: local steps per second of one device; a type that is absent
                              // has no estimate and is given only through proposals and minima
  Work work;
  bool started = false;        // has ever run
  double changed_s = -kNever;  // when its devices last changed
  double start_s = 20;         // seconds without progress at its first start
  double rescale_s = 1;        // seconds without progress at any later change, 0 when free
  // ClusterView::job_seconds when it was submitted; the difference to now, divided by the time
  // since, is the mean number of jobs that it shared the cluster with, itself included.
  double job_seconds_at_submit = 0;
};

// Devices that a tenant owns. Others may borrow what it does not use; it gets them back when one of
// its jobs waits. A tenant without a quota owns nothing and can only borrow or use what no quota
// covers.
struct Quota {
  std::string tenant;
  DeviceSet devices;
};

struct ClusterView {
  DeviceSet free;       // can be granted now
  DeviceSet returning;  // on their way back from jobs: will be free without any decision
  // Jobs in any order, a slot with an empty id is not in use. Slots are only names: no decision may
  // depend on which slot a job is in.
  std::vector<JobView> jobs;
  DeviceSet total = {};  // all that jobs may have: free, returning, held, and some out of use
  double now_s = 0;
  double job_seconds = 0;  // integral over time of the number of jobs that are submitted, not done
  std::vector<Quota> quotas = {};  // each tenant at most once; none: everything is common
  // The slots whose JobView may differ from the last view that this policy was given; unset: any.
  // A caller that keeps one view up to date fills it, so that a decision costs what has changed.
  std::optional<std::vector<std::size_t>> changed = std::nullopt;
};

struct Change {
  std::size_t slot = 0;  // of the job in ClusterView::jobs
  DeviceSet devices;     // not empty
  bool operator==(const Change&) const = default;
};

// At most one grant and one shrink per job.
struct Decisions {
  std::vector<Change> grants;   // so many devices more
  std::vector<Change> shrinks;  // so many devices fewer; they come back later
  // The policy wants to be asked again at this time if nothing happens before. > now_s.
  double again_s = kNever;
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Deterministic: the same view gives the same decisions, whatever was asked before. One caller at
  // a time.
  virtual Decisions decide(const ClusterView& view) = 0;
};

// Local steps that the job has still to do at this time, >= 0.
double remaining_steps_at(const JobView& job, double now_s);
// Devices x seconds that it has held until this time.
double attained_device_s_at(const JobView& job, double now_s);

// Ok when the decisions keep the rules above; else which rule is broken, for which job.
Status check_decisions(const ClusterView& view, const Decisions& decisions);

}  // namespace es::scheduler
