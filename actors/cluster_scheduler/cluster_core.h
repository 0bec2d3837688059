#pragma once
// ClusterCore: the decisions of the ClusterScheduler. Which devices exist, who holds them, what
// each job asks for; when something has changed the policy is asked and its decisions are carried
// out.
//
// Pure: the same events at the same times give the same effects. No CAF, clock or I/O. Not
// thread-safe. An event of an unknown job or node, or one that says what is known already, changes
// nothing and is counted. Times are seconds from an origin of the caller's choice; they do not
// fall.
//
// take() only enters an event, decide() asks the policy about all that was entered since: the
// caller decides how many events make one decision. The view that the policy sees is kept up to
// date job by job, so the cost of both is that of what has changed, and the policy's own.
//
// Claims (a serving load outside of this system) come before any policy: see cluster_claims.cc.
//
// How a device changes hands:
//
//   core -> job   Allocation with fewer devices
//   job           goes to a step boundary without it; its worker process ends and is reaped
//   job -> core   DeviceReleased
//   core -> other Allocation with one more
//
// So a device is granted only when it is free, and is free only when no process is left on it. A
// device of a lost node is lost, not free (device_pool.h).
//
// A job that moves is given new devices while it still trains on the old ones: their processes warm
// up, and the old ones hold the state until the new placement has it. So it owns more than the
// max_p devices that it may be given, but never more than twice as many: while devices of two
// changes are on their way back, it is given no others. Devices that it demands by name (exact) are
// its owner's choice.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/cluster_scheduler/device_pool.h"
#include "proto/base/job_spec.h"
#include "scheduler/policy/policy.h"

namespace es::actors {
namespace cluster {

// --- events ------------------------------------------------------------------------------------

// A node says hello, for the first time or again. Device indices are 0 .. count - 1 of each type.
// The job that owned a device when the node was lost still owns it, until its DeviceReleased.
// `kept`: devices on which, after a restart of the head, a process of a job still runs.
struct NodeJoined {
  std::string node;
  DeviceSet devices;
  std::vector<std::pair<JobId, DeviceId>> kept = {};
};

struct NodeLost {
  std::string node;
};

// The daemon of this node is about to end: as if it were lost, but its processes live and are to be
// handed over. NodeJoined ends it.
struct NodeDraining {
  std::string node;
};

// A job exists from now on, and its place in the submit order is taken. It is given nothing before
// its first JobDemand.
struct JobAdmitted {
  JobId job;
  std::uint32_t min_devices = 1;  // >= 1
  std::uint32_t max_devices = 0;  // 0 = max_p
  // That it may be given without asking for them by name (JobDemand.exact); empty = all.
  std::vector<DeviceType> device_types;
  DeterminismLevel level = DeterminismLevel::kD1;
  std::uint32_t max_p = 1;  // ESTs; the policy never gives a job more devices than these
  // By an earlier head, which has judged what it can demand: its nodes may still be on their way.
  bool restored = false;
  // For the policy (scheduler/policy/policy.h says what these mean).
  std::optional<double> submit_s;  // none: now
  std::string tenant;
  int priority = 0;
  double deadline_s = scheduler::kNever;  // on the same clock as the events
  double start_s = 1;                     // without progress at its first start, assumed
  double rescale_s = 0.5;                 // and at later changes, until the job has measured it
};

// How far a job is, when it sends it.
struct JobProgress {
  double total_steps = scheduler::kNever;  // local steps
  double remaining_steps = scheduler::kNever;
  double steps_per_s = 0;  // local steps per second with the devices of now; 0: it does not step
  double rescale_s = 0;    // a change of its devices costs, measured
  bool started = false;    // has ever run
  bool adopted = true;     // uses what it was last given, and nothing else
  scheduler::Capabilities capabilities;
};

// What the job can use now; replaces its last demand. The job sends it when it starts, after it has
// adopted an Allocation, and whenever its wishes or measurements change.
struct JobDemand {
  JobId job;
  // Set: exactly these (empty: none at all), of whatever types and even more than max_p: a job may
  // warm up the devices of its next stage while it uses those of this one. What it holds beyond is
  // not called back; the job releases it once it can do without. Unset: its minimum, and the
  // proposals.
  std::optional<DeviceSet> exact;
  // Relative to the devices of the Allocation with this sequence (0: to none). They are void from
  // the next Allocation on, whether granted or not: the job then proposes anew. Ignored with
  // `exact`.
  std::vector<scheduler::Proposal> proposals;
  std::uint64_t sequence = 0;
  std::optional<JobProgress> progress = std::nullopt;  // none: as it was
};

// All that the job refuses from now on (scheduler/refusal.h). Its proposals are void: it is about
// to give devices back, or makes others.
struct JobRefuses {
  JobId job;
  std::vector<scheduler::Refusal> refusals;  // capabilities do not matter here
};

// The job uses devices of this type only from now on, whatever JobAdmitted said: below level D2 the
// kernels of the type on which it began decide its bits.
struct JobBound {
  JobId job;
  DeviceType type;
};

// The worker process on this device has been reaped (or never was). Also for a device that the job
// gives back unasked, because its plan does not use it.
struct DeviceReleased {
  JobId job;
  DeviceId device;
};

// An audit has found that this device computes wrongly. Its job gives it back by DeviceReleased.
struct DeviceSuspected {
  DeviceId device;
  std::string reason;
};

// An operator has cleared it.
struct DeviceCleared {
  DeviceId device;
};

// The job is over, no process of it is left anywhere.
struct JobEnded {
  JobId job;
};

// Somebody outside takes so many devices of a type until ClaimEnded. check_claim() has let it pass,
// now or in an earlier head.
struct ClaimMade {
  std::string name;
  DeviceType type;
  std::uint32_t count = 0;  // > 0
  bool operator==(const ClaimMade&) const = default;
};

// A claim takes so many from now on. What it has beyond is free at once.
struct ClaimResized {
  std::string name;
  std::uint32_t count = 0;  // > 0
};

struct ClaimEnded {
  std::string name;
};

using Event = std::variant<NodeJoined, NodeLost, NodeDraining, JobAdmitted, JobDemand, JobRefuses,
                           JobBound, DeviceReleased, DeviceSuspected, DeviceCleared, JobEnded,
                           ClaimMade, ClaimResized, ClaimEnded>;

// --- effects -----------------------------------------------------------------------------------

// To the job: all devices that it may hold from now on. It starts workers on new ones, drains those
// that are missing and sends DeviceReleased for each of these once its process is reaped.
// Idempotent: of several, the highest sequence counts.
struct Allocation {
  JobId job;
  std::uint64_t sequence = 0;  // of this job, from 1, growing
  // How many DeviceReleased of this job were handled before. A device that the job has released
  // since then is no longer its own, though it is listed; one released before is granted anew.
  std::uint64_t releases_seen = 0;
  std::vector<DeviceId> devices;  // ascending
  // A device that is missing is about to end: with nothing left, the job writes a checkpoint.
  bool urgent = false;
  bool operator==(const Allocation&) const = default;
};

// To the job: its demand cannot be met: exact ones by the devices that exist; its minimum, when it
// asks for that for the first time or after exact ones, not even with those of nodes that are away.
// The demand before it stays in force.
// Nothing is refused before the first node has joined: a restarted head has jobs before nodes.
struct DemandRefused {
  JobId job;
  std::string reason;  // e.g. "needs cpu-avx512:5, the cluster has cpu-avx512:4"
  bool operator==(const DemandRefused&) const = default;
};

using Effect = std::variant<DemandRefused, Allocation>;

struct Limits {
  std::vector<scheduler::Quota> quotas{};  // each tenant at most once; none: all is common
  // What all claims together may take of each type; none: all that exist.
  std::optional<DeviceSet> claims{};
};

}  // namespace cluster

class ClusterCore {
 public:
  explicit ClusterCore(std::unique_ptr<scheduler::Policy> policy, cluster::Limits limits = {});

  // Enters an event. What must be said at once, whatever the policy decides: refusals.
  std::vector<cluster::Effect> take(const cluster::Event& event, double now_s);
  // Asks the policy and carries its decisions out: allocations in submit order.
  std::vector<cluster::Effect> decide(double now_s);
  // Both.
  std::vector<cluster::Effect> on(const cluster::Event& event, double now_s = 0);
  // When the policy wants to be asked again if nothing happens before; kNever: it does not.
  double decide_again_s() const { return again_s_; }

  // Ok when ClaimMade may follow. Refused: the name is in use, no such devices, over the limit.
  Status check_claim(const cluster::ClaimMade& claim) const;
  // Ok when ClaimResized may follow. Not found: no such claim. Refused: as above; fewer never are.
  Status check_claim(const cluster::ClaimResized& claim) const;
  // Error (not found): there is no such claim.
  Status check_claim_end(const std::string& name) const;

  struct ClaimView {
    std::string name;
    DeviceType type;
    std::uint32_t count = 0;    // that it takes
    std::uint32_t devices = 0;  // that it has by now
    // Whose devices of its type are called back, while it misses some, and how many.
    std::vector<std::pair<JobId, std::uint32_t>> waits{};
  };
  // For display, by name.
  std::vector<ClaimView> claims() const;
  std::vector<DevicePool::NodeView> nodes() const { return pool_.nodes(); }
  // Devices of live nodes, by type.
  const DeviceSet& existing_devices() const { return pool_.existing_devices(); }
  // The devices that the job may hold now.
  const std::set<DeviceId>& held(const JobId& job) const { return pool_.held(job); }
  // Events that changed nothing because they did not fit.
  std::uint64_t ignored_events() const { return ignored_events_; }

  // No device has two owners, each owner is a known job or claim, and all counts agree. Aborts
  // otherwise.
  void check_invariants() const;

 private:
  struct Job {
    cluster::JobAdmitted admitted;
    std::optional<cluster::JobDemand> demand;  // the one in force
    std::vector<scheduler::Refusal> refusals;
    std::uint64_t sequence = 0;  // of the last Allocation
    std::uint64_t releases_seen = 0;
    std::size_t slot = 0;  // in view_.jobs
    bool changed = false;  // held devices changed since then
    bool moved = false;    // and not only by what the job gave back unasked: it must change over
    bool urgent = false;   // some of them are on a node that drains, or all were taken away
    bool listed = false;   // in touched_
  };

  void handle(const cluster::NodeJoined& event);
  void handle(const cluster::NodeLost& event);
  void handle(const cluster::NodeDraining& event);
  void handle(const cluster::JobAdmitted& event);
  void handle(const cluster::JobDemand& event);
  void handle(const cluster::JobRefuses& event);
  void handle(const cluster::JobBound& event);
  void handle(const cluster::DeviceReleased& event);
  void handle(const cluster::DeviceSuspected& event);
  void handle(const cluster::DeviceCleared& event);
  void handle(const cluster::JobEnded& event);
  void handle(const cluster::ClaimMade& event);
  void handle(const cluster::ClaimResized& event);
  void handle(const cluster::ClaimEnded& event);

  Job* find(const JobId& job);
  void mark_changed(Job& job);
  std::string refuse(const Job& job, const cluster::JobDemand& demand) const;
  void lose(const std::string& node, bool urgent);
  void take_back(Job& job, const DeviceSet& devices);
  void give(Job& job, const DeviceSet& devices);
  void schedule();
  void send_changed_allocations();

  // The view (cluster_view.cc).
  void advance(double now_s);
  void touch(Job& job);
  void refresh_view();
  void refresh(Job& job);
  void refresh_progress(Job& job, scheduler::JobView& view) const;
  void limit_holding(scheduler::JobView& view) const;
  void expect_change(const Job& job);
  void take_slot(Job& job);
  void release_slot(const Job& job);

  // Claims (cluster_claims.cc).
  struct Claim {
    DeviceType type;
    std::uint32_t count = 0;
  };
  Status check_count(const cluster::ClaimMade& claim) const;
  void serve_claims();
  std::uint32_t missing_to(const std::string& name, const Claim& claim) const;
  std::vector<std::pair<JobId, std::uint32_t>> leaving(const DeviceType& type) const;
  void call_back(const DeviceType& type, std::uint32_t count);
  DeviceSet reserved_returning() const;
  void give_back_returned(const std::string& claim);

  const std::unique_ptr<scheduler::Policy> policy_;
  const cluster::Limits limits_;
  DevicePool pool_;
  std::map<std::uint64_t, Job> jobs_;  // by submit number
  std::map<JobId, std::uint64_t> submit_numbers_;
  std::uint64_t next_submit_number_ = 0;
  std::map<std::string, Claim> claims_;
  std::uint64_t ignored_events_ = 0;
  double now_s_ = 0;
  double again_s_ = scheduler::kNever;

  scheduler::ClusterView view_;           // as of the last decision, and what was touched since
  std::vector<DeviceType> all_types_;     // that exist, ascending: view_ was written for these
  std::vector<std::size_t> free_slots_;   // of view_.jobs, the next one last
  std::vector<std::uint64_t> touched_;    // jobs whose view is not up to date, by submit number
  std::vector<std::uint64_t> changed_;    // jobs with `changed`, by submit number
  std::vector<std::size_t> left_slots_;   // of jobs that ended since the last decision
  std::vector<cluster::Effect> effects_;  // of the call that runs
};

// Owner of a claim's devices in the inventory; no job has such an id.
JobId claim_owner(const std::string& claim);

}  // namespace es::actors
