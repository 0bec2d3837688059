#pragma once
// ClusterCore makes the decisions of the ClusterScheduler. It knows which devices exist, which job
// holds each of them, and what each job asks for. When something has changed, it asks the policy
// and carries out the answer.
//
// The core is pure: the same events at the same times give the same effects. It uses no CAF, clock
// or I/O, and it is not thread-safe. An event of an unknown job or node, or one that changes
// nothing, is counted and otherwise ignored. Times are seconds from an origin that the caller
// chooses; they never decrease.
//
// take() only records an event. decide() asks the policy about everything that was recorded since,
// so the caller decides how many events make one decision. The view for the policy is updated job
// by job. Therefore the cost of both calls is that of the changes, plus that of the policy.
//
// Claims (loads outside of EasyScale) are served before any policy: see cluster_claims.cc.
//
// This is how a device passes from one job to another:
//
//   core -> job    Allocation with fewer devices
//   job            goes to a step boundary without it; its worker process ends and is reaped
//   job -> core    DeviceReleased
//   core -> other  Allocation with one device more
//
// So a device is granted only when it is free, and it is free only when no process is left on it. A
// device of a lost node is lost, not free (device_pool.h).
//
// A job that moves is given new devices while it still trains on the old ones: the new processes
// warm up, and the old ones hold the state until the new placement has it. Therefore a job can own
// more than the max_p devices that it may be given, but never more than twice max_p: while devices
// of two changes are being returned, it is given no others. This limit does not apply to devices
// that a job demands by name (exact), which are the choice of its user.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/cluster_scheduler/core/device_pool.h"
#include "proto/base/job_spec.h"
#include "scheduler/policy/common/policy.h"

namespace es::actors {
namespace cluster {

// --- events ------------------------------------------------------------------------------------

// A node said hello, for the first time or again. Device indices are 0 .. count - 1 of each type. A
// job that owned a device when the node was lost owns it until its DeviceReleased. `kept`: devices
// on which a process of a job still runs after a restart of the head.
struct NodeJoined {
  std::string node;
  DeviceSet devices;
  std::vector<std::pair<JobId, DeviceId>> kept = {};
};

struct NodeLost {
  std::string node;
};

// The daemon of this node is about to end. The node is treated as lost, but its processes live and
// are to be handed over. NodeJoined ends this state.
struct NodeDraining {
  std::string node;
};

// A job exists and has its place in the submit order. It is given nothing before its first
// JobDemand.
struct JobAdmitted {
  JobId job;
  std::uint32_t min_devices = 1;  // >= 1
  std::uint32_t max_devices = 0;  // 0 = max_p
  // Types that the job may be given without naming them in JobDemand.exact; empty: all.
  std::vector<DeviceType> device_types;
  DeterminismLevel level = DeterminismLevel::kD1;
  std::uint32_t max_p = 1;  // ESTs; the policy never gives a job more devices than this
  // Admitted by an earlier head, which has judged its demand. Its nodes may not have returned yet.
  bool restored = false;
  // For the policy; see scheduler/policy/common/policy.h.
  std::optional<double> submit_s;  // nullopt: now
  std::string tenant;
  int priority = 0;
  double deadline_s = scheduler::kNever.count();  // on the clock of the events
  double start_s = 1;      // assumed seconds without progress at the first start
  double rescale_s = 0.5;  // the same for later changes, until the job has measured one
};

// The progress of a job when it sends it.
struct JobProgress {
  double total_steps = scheduler::kUnknownLength;  // local steps
  double remaining_steps = scheduler::kUnknownLength;
  double steps_per_s = 0;  // local steps per second on the current devices; 0: it stands
  double rescale_s = 0;    // measured cost of a change of devices
  bool started = false;    // the job has run before
  bool adopted = true;     // it uses exactly what it was last given
  scheduler::Capabilities capabilities;
};

// What the job can use now. Replaces its last demand. A job sends it when it starts, after it has
// adopted an Allocation, and whenever its wishes or measurements change.
struct JobDemand {
  JobId job;
  // If set: the job wants exactly these devices (empty: none), of any types and even more than
  // max_p, because a job may warm up the devices of its next stage while it uses those of the
  // current one. What it holds in excess is not called back; the job releases it when it can. If
  // not set: the job wants its minimum and the proposals.
  std::optional<DeviceSet> exact;
  // Proposals are relative to the devices of the Allocation with this sequence (0: to no devices).
  // They become void with the next Allocation, whether they were granted or not, and the job
  // proposes again. Ignored if `exact` is set.
  std::vector<scheduler::Proposal> proposals;
  std::uint64_t sequence = 0;
  std::optional<JobProgress> progress = std::nullopt;  // nullopt: unchanged
};

// The complete list of device sets that the job refuses from now on (refusal.h). Its
// proposals become void, because it is about to give devices back or to propose others.
struct JobRefuses {
  JobId job;
  std::vector<scheduler::Refusal> refusals;  // capabilities are not used here
};

// The job uses only devices of this type from now on, whatever JobAdmitted said. Below level D2 the
// kernels of the type on which a job began decide its bits.
struct JobBound {
  JobId job;
  DeviceType type;
};

// The worker process on this device was reaped, or never existed. A job also sends this for a
// device that it gives back without being asked, because its plan does not use it.
struct DeviceReleased {
  JobId job;
  DeviceId device;
};

// An audit found that this device computes wrongly. Its job gives it back by DeviceReleased.
struct DeviceSuspected {
  DeviceId device;
  std::string reason;
};

// An operator has cleared the device.
struct DeviceCleared {
  DeviceId device;
};

// The job is over, and none of its processes is left.
struct JobEnded {
  JobId job;
};

// A load outside of EasyScale takes `count` devices of a type until ClaimEnded. check_claim() has
// accepted the claim, in this head or in an earlier one.
struct ClaimMade {
  std::string name;
  DeviceType type;
  std::uint32_t count = 0;  // > 0
  bool operator==(const ClaimMade&) const = default;
};

// A claim changes its number of devices. Devices beyond the new number become free at once.
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

// To the job: all devices that it may hold from now on. It starts workers on new ones, leaves the
// missing ones, and sends DeviceReleased for each of these when its process was reaped. Idempotent:
// of several allocations the highest sequence counts.
struct Allocation {
  JobId job;
  std::uint64_t sequence = 0;  // counts the allocations of this job, from 1
  // The number of DeviceReleased of this job that were handled before. A device that the job has
  // released since then no longer belongs to it, although it is listed. A device that it released
  // before is granted again.
  std::uint64_t releases_seen = 0;
  std::vector<DeviceId> devices;  // ascending
  // A device that is missing is about to end. If the job has no device left, it writes a
  // checkpoint.
  bool urgent = false;
  bool operator==(const Allocation&) const = default;
};

// To the job: its demand cannot be met. An exact demand is compared with the devices that exist.
// The minimum is judged when the job first asks for it, or asks for it after an exact demand, and
// includes the devices of nodes that are away. The previous demand stays in force. Nothing is
// refused before the first node has joined, because a restarted head knows its jobs before its
// nodes.
struct DemandRefused {
  JobId job;
  std::string reason;  // such as "needs cpu-avx512:5, the cluster has cpu-avx512:4"
  bool operator==(const DemandRefused&) const = default;
};

using Effect = std::variant<DemandRefused, Allocation>;

struct Limits {
  // Each tenant at most once; empty: all devices are common.
  std::vector<scheduler::Quota> quotas{};
  // Limit of all claims together, for each type; nullopt: all devices that exist.
  std::optional<DeviceSet> claims{};
};

}  // namespace cluster

class ClusterCore {
 public:
  explicit ClusterCore(std::unique_ptr<scheduler::Policy> policy, cluster::Limits limits = {});

  // Records an event. Returns the effects that do not depend on the policy: refusals.
  std::vector<cluster::Effect> take(const cluster::Event& event, double now_s);
  // Asks the policy and carries out its decisions. Returns allocations in submit order.
  std::vector<cluster::Effect> decide(double now_s);
  // Calls take() and decide().
  std::vector<cluster::Effect> on(const cluster::Event& event, double now_s = 0);
  // The time at which the policy wants to be asked again if nothing happens before; infinity: it
  // does not.
  double decide_again_s() const { return again_s_; }

  // Ok if ClaimMade may follow. Refused: the name is in use, no such devices, or over the limit.
  Status check_claim(const cluster::ClaimMade& claim) const;
  // Ok if ClaimResized may follow. Not found: there is no such claim. Refused: as above; a smaller
  // number is never refused.
  Status check_claim(const cluster::ClaimResized& claim) const;
  // Error (not found): there is no such claim.
  Status check_claim_end(const std::string& name) const;

  struct ClaimView {
    std::string name;
    DeviceType type;
    std::uint32_t count = 0;    // number that the claim asks for
    std::uint32_t devices = 0;  // number that it has
    // The jobs that still have to leave devices of its type, with the number of devices, while the
    // claim lacks some.
    std::vector<std::pair<JobId, std::uint32_t>> waits{};
  };
  // For display, ordered by name.
  std::vector<ClaimView> claims() const;
  std::vector<DevicePool::NodeView> nodes() const { return pool_.nodes(); }
  // Devices of live nodes, by type.
  const DeviceSet& existing_devices() const { return pool_.existing_devices(); }
  // Returns the devices that the job may hold now.
  const std::set<DeviceId>& held(const JobId& job) const { return pool_.held(job); }
  // The number of events that were ignored because they did not fit.
  std::uint64_t ignored_events() const { return ignored_events_; }

  // Aborts unless every device has at most one owner, every owner is a known job or claim, and all
  // counts agree.
  void check_invariants() const;

 private:
  struct Job {
    cluster::JobAdmitted admitted;
    std::optional<cluster::JobDemand> demand;  // the demand in force
    std::vector<scheduler::Refusal> refusals;
    std::uint64_t sequence = 0;  // of the last Allocation
    std::uint64_t releases_seen = 0;
    std::size_t slot = 0;  // index in view_.jobs
    bool changed = false;  // its devices changed since the last Allocation
    // The job must change its placement: not all changes are devices that it gave back unasked.
    bool moved = false;
    // Some of the changes are on a draining node, or all devices were taken away.
    bool urgent = false;
    bool listed = false;  // contained in touched_
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
  double again_s_ = scheduler::kNever.count();

  scheduler::ClusterView view_;          // as of the last decision, with later changes
  std::vector<DeviceType> all_types_;    // types that exist, ascending; view_ was written for these
  std::vector<std::size_t> free_slots_;  // of view_.jobs; the last one is used next
  std::vector<std::uint64_t> touched_;   // jobs whose view is outdated, by submit number
  std::vector<std::uint64_t> changed_;   // jobs with `changed`, by submit number
  std::vector<std::size_t> left_slots_;  // slots of jobs that ended since the last decision
  std::vector<cluster::Effect> effects_;  // effects of the running call
};

// The owner of a claim's devices in the pool. No job has such an id.
JobId claim_owner(const std::string& claim);

}  // namespace es::actors
