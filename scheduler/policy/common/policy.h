#pragma once
// Policy decides which job gets which of the cluster's devices. It is a function from the state of
// the cluster to the changes that shall happen. The ClusterScheduler calls it after every event and
// carries its decisions out. A new policy needs one file with one class, and one line in
// registry.cc. docs/SCHEDULING.md compares the policies.
//
// A policy has no clock: the time comes with the view, from an origin that the caller chooses. A
// policy must be a function of the view alone. It may keep an index of the last view to be fast,
// but then it must answer as a new policy would answer to the same view.
//
// These are the rules that every policy keeps (check_decisions). "After" means held - shrunk +
// granted.
//
//   free      The grants of a type together are at most the free devices of that type.
//   pinned    The job is granted exactly pinned - held (type by type), or nothing. It is never
//             shrunk: it gives back what it holds beyond that by itself, when it can.
//   bounds    After, an elastic job holds nothing, or min_devices .. max_devices devices of
//             allowed types, of one type only without mix_types. (A mix that it held before is
//             tolerated.)
//   change    No type is both granted to a job and taken from it by one decision.
//   grow      A job that holds its minimum is granted at most what it proposed of each type, or
//             it migrates. A proposal is void once the job's devices have changed.
//   migrate   A job may be shrunk by all that it holds and be granted anything within the bounds.
//   refused   No grant leaves an elastic job with devices that it refuses.
//   start     A job that holds nothing is granted anything within the bounds. A job that holds
//             less than its minimum is granted what it lacks.
//   suspend   A job that may be suspended can be shrunk by all that it holds. It then writes a
//             checkpoint, keeps its progress and its place in the submit order, and waits like a
//             job that has not started. Any other shrink leaves min_devices.
//   settled   A job that has not adopted its last change (settled is false) is granted nothing,
//             unless it is below its minimum. It may be shrunk.
//   budget    A job that may spend nothing any more is granted nothing.
//   price     What a job is granted costs at most its price_limit in an hour.
//   queue     No queue of which a job is granted devices of a type has, after, more of this type
//             than its limit (queue.h), and no queue above it.
//
// No policy leaves devices idle beside jobs that wait for them (check_idle in waits.h):
//
//   start     If no job has what it needs, and no device is on its way to or from a job, none fits
//             into the free devices that its queue may use.
//   name      Whatever runs: for a job that fits into what stays free after the grants, a decision
//             names the rule by which it waits (Decisions::waits, Decisions::blocked_by).
//
// A policy that supports queues (PolicyInfo::holds_queues) gives each queue the devices to which it
// is entitled by guarantee, tier and weight (queue_tree.h) before any job of another queue borrows
// them, also if it has to take them from running jobs that may be suspended. Reservations raise
// guarantees for a time, so the queues may differ from view to view.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "scheduler/grants/refusal.h"
#include "scheduler/model/model.h"
#include "scheduler/model/seconds.h"
#include "scheduler/plans/proposal.h"
#include "scheduler/policy/common/prices.h"
#include "scheduler/policy/common/queue.h"

namespace es::scheduler {

inline constexpr std::uint32_t kShareLevels = 4096;

// The length of a job in local steps if it is not known.
inline constexpr double kUnknownLength = kNever.count();

// The progress of a job. A local step is one mini-batch of one EST; a global step is max_p of them.
// The values are written when something changes, not as time passes: remaining_steps_at()
// extrapolates from as_of with the devices that the job holds.
struct Work {
  double total_steps = kUnknownLength;      // local steps of the whole job
  double remaining_steps = kUnknownLength;  // local steps to do, at as_of
  double steps_per_s = 0;                   // local steps per second with its present devices, >= 0
  Seconds as_of{0};                         // time of these values
  Seconds paused_until{0};                  // starting or rescaling: no step before this time
  double attained_device_s = 0;  // sum of devices x seconds that it has held, until as_of
  // The parts of that sum by type: ascending by type, only types that it has held.
  struct Attained {
    DeviceType type;
    double device_s = 0;
  };
  std::vector<Attained> attained_by_type;
  std::uint32_t changes = 0;  // how many times its devices have changed after its first start
};

struct JobView {
  JobId id;                  // empty if the slot has no job
  std::uint64_t number = 0;  // place in the submit order: unique, smaller for earlier submission
  Seconds submitted{0};      // time of its submission
  std::string queue;         // the leaf of ClusterView::queues that it is in; "" for none
  int priority = 0;          // higher is served first, before everything else
  // Of jobs with equal priority those with a smaller level are served first, before everything
  // else. With decayed fair share it is that of the queue (fair_share.h); < kShareLevels.
  std::uint32_t share_level = 0;
  Seconds deadline = kNever;  // time by which it should end
  // What it may still spend, in the unit of the prices; 0: it is pinned to nothing.
  double budget_left = kNever.count();
  // What the devices that it is granted may cost in an hour. The owner of the view has limited
  // `types` and `max_devices` to those of price_choice.h, so a policy need not look at it.
  double price_limit = kNever.count();

  // Bounds of what it may hold.
  std::uint32_t min_devices = 1;  // >= 1: with fewer it does not run
  std::uint32_t max_devices = 1;  // >= min_devices
  std::vector<DeviceType> types;  // types that the scheduler may choose, ascending
  bool mix_types = false;         // may hold more than one type at a time
  // Type that its owner asked for. Policies without elastic scaling give max_devices of it, or
  // nothing. An empty name stands for the fastest type.
  DeviceType gang_type;
  // A stage or a scale command: exactly these devices (an empty set: none)
  std::optional<DeviceSet> pinned;
  bool may_suspend = true;  // may be left with nothing after it has started

  // The devices that it holds and requests.
  DeviceSet held;  // devices that it may hold, without those that it is giving back
  // True if the job has adopted its last change of devices and has answered with proposals, and if
  // the devices that it holds and those that it still gives back are together at most max_p.
  bool settled = true;
  std::vector<Proposal> proposals;  // relative to held; empty once one of them was granted
  std::vector<Refusal> refusals;    // each for at least min_devices devices

  // Its speed and progress. All values are measured if there is a measurement, otherwise estimated.
  std::uint32_t max_p = 1;  // number of ESTs
  // C_i: local steps per second of one device. A type that is absent has no estimate, and is given
  // only through proposals and minima.
  Capabilities capabilities;
  SyncCurve sync;  // what it is known to lose by communication; empty: nothing is known
  // While `sync` is empty: what it is expected to lose for each further device, in seconds of a
  // global step (model/sync_prior.h), >= 0.
  double expected_sync_s = 0;
  Work work;
  bool started = false;       // it has run before
  Seconds changed = -kNever;  // time of the last change of its devices
  Seconds start_pause{20};    // without progress at its first start
  // Without progress at a later change that leaves it a device, or replaces all by others; 0 if a
  // change is free.
  Seconds rescale_pause{1};
  // Without progress at a suspension through a checkpoint and the restart after it together, while
  // it holds devices.
  Seconds suspend_pause{1};
  // ClusterView::job_seconds at its submission. The difference to the present value, divided by the
  // time since, is the mean number of jobs that have shared the cluster with it, including itself.
  double job_seconds_at_submit = 0;
};

struct ClusterView {
  DeviceSet free;       // can be granted now
  DeviceSet returning;  // on their way back from jobs; will be free without a decision
  // Jobs in any order; a slot with an empty id is unused. Slots are only names: no decision may
  // depend on the slot of a job.
  std::vector<JobView> jobs;
  // All that jobs may have: free, returning, held, and some that are out of use.
  DeviceSet total = {};
  Seconds now{0};
  double job_seconds = 0;  // integral over time of the number of submitted jobs that have not ended
  std::vector<Queue> queues = {};  // completed_queues(); if empty, all devices are common
  Prices prices = {};              // what devices cost; empty: nothing
  // The slots whose JobView may differ from the last view that this policy was given; nullopt if
  // any may differ. A caller that keeps one view up to date sets it, so that a decision costs only
  // what has changed.
  std::optional<std::vector<std::size_t>> changed = std::nullopt;
};

struct Change {
  std::size_t slot = 0;  // of the job in ClusterView::jobs
  DeviceSet devices;     // not empty
  bool operator==(const Change&) const = default;
};

// What a policy gives a job at the least when it starts. A pinned job gets what it is pinned to.
enum class StartsWith : std::uint8_t {
  kMinimum,           // min_devices, of several types if the job may mix them
  kMinimumOfOneType,  // min_devices of one type
  kGang,              // all devices of a gang (gangs_of, choice.h)
};

// Why a job waits for devices although some are free.
enum class WaitRule : std::uint8_t {
  kReturning,  // others give devices back for it
  kSettling,   // it has not adopted its last change
  kPauses,     // what is left does not suffice for it until jobs that start or rescale are done
  kEnd,        // a job is about to end whose devices it will have
  kScarce,     // it leaves what is free to jobs that can use nothing else, and can use other types
  kSlowType,   // it may not mix types, and would end too late on what is free
  kOrder,      // another job comes first, and this policy lets none overtake it
  kKept,       // the free devices that it could use are kept for other jobs
  kNoSpeed,    // its speed on what is free is not known
};

struct Wait {
  std::size_t slot = 0;  // of the job that waits
  WaitRule rule = WaitRule::kReturning;
  DeviceSet keeps = {};                   // free devices that are kept for it meanwhile
  Seconds until = kNever;                 // the latest end of the wait, if that is known
  std::optional<std::size_t> after = {};  // slot of the job whose end or start it awaits
};

// At most one grant and one shrink for each job.
struct Decisions {
  std::vector<Change> grants;   // additional devices
  std::vector<Change> shrinks;  // devices to give back; they become free later
  // The time, > now, at which the policy wants to be asked again if nothing happens before.
  Seconds again_at = kNever;
  // The jobs that wait by a rule of the policy beside free devices. waits.h derives from them why
  // all others wait.
  std::vector<Wait> waits = {};
  // The slot of a job before which no other job may start.
  std::optional<std::size_t> blocked_by = {};
};

class Policy {
 public:
  virtual ~Policy() = default;
  // Deterministic: the same view gives the same decisions, whatever was asked before. One caller at
  // a time.
  virtual Decisions decide(const ClusterView& view) = 0;
  // Whether it reads JobView::expected_sync_s. Otherwise the owner of the view need not know it.
  virtual bool expects_sync() const { return false; }
  virtual StartsWith starts_with() const { return StartsWith::kMinimum; }
};

// Local steps that the job still has to do at this time, >= 0.
double remaining_steps_at(const JobView& job, Seconds now);
// Devices x seconds that it has held until this time.
double attained_device_s_at(const JobView& job, Seconds now);
// Writes the progress and the service of the job anew for this time: with the devices that it
// holds, and with the speed and the pause that it has had since as_of.
void advance_work(JobView& job, Seconds now);

// Returns success if the decisions keep the rules above, otherwise an error with the broken rule
// and the job.
Status check_decisions(const ClusterView& view, const Decisions& decisions);

}  // namespace es::scheduler
