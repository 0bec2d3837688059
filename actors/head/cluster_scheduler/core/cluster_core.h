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
// Claims (loads outside of EasyScale) are served before any policy: see cluster_claims.cc. A device
// on which jobs cannot work is set aside for a while, which no policy sees: see cluster_faults.cc.
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
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "actors/head/cluster_scheduler/core/device_faults.h"
#include "actors/head/cluster_scheduler/core/device_pool.h"
#include "scheduler/model/sync_prior.h"
#include "scheduler/policy/common/fair_share.h"
#include "scheduler/policy/common/policy.h"
#include "scheduler/policy/common/queue_states.h"

namespace es::actors {
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
  double decide_again_s() const { return decide_again_s_; }

  // Ok if ClaimMade may follow. Refused: the name is in use, no such devices at some moment of its
  // time, or over the limit. Usage: it names a queue that does not exist or is no leaf.
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
    std::uint32_t devices = 0;  // number that it has; 0 if they are for a queue
    std::string queue{};        // of a reservation for a queue
    bool begun = false;         // false: a reservation that begins later
    // The jobs that still have to leave devices of its type, with the number of devices, while the
    // claim lacks some.
    std::vector<std::pair<JobId, std::uint32_t>> waits{};
  };
  // For display, ordered by name.
  std::vector<ClaimView> claims() const;
  // The reservations that have ended by themselves since the last call, by name. The caller removes
  // them from the journal.
  std::vector<std::string> take_ended_claims();
  // What each leaf has used until now (device-seconds), after it has changed; nullopt if it has not
  // changed since the last call. The caller journals it.
  std::optional<std::vector<std::pair<std::string, double>>> take_usage();
  // With decayed fair share: device-seconds and level of a queue; nullopt without.
  struct ShareView {
    double device_seconds = 0;
    std::uint32_t level = 0;
  };
  std::optional<ShareView> share_of(const std::string& queue) const;
  // What a job waits for, by which rule, and when that is expected; "" if it is not known.
  struct WaitText {
    std::string what, when;
  };
  // For display, as of the last decision: the jobs that wait although free devices suffice for
  // them. Only jobs that `shows` allows are named in their texts.
  std::map<JobId, WaitText> waits(const std::function<bool(const JobId&)>& shows) const;
  // For display, in the given order, as of the last decision. Guarantees include reservations.
  std::vector<scheduler::QueueState> queues() const { return scheduler::queue_states(view_); }
  std::vector<DevicePool::NodeView> nodes() const { return pool_.nodes(); }
  // The nodes that cannot be reached from this one, with the time until which no job is given both.
  std::vector<std::pair<std::string, double>> cut_from(const std::string& node) const;
  // Whether the device is out of use for a time, or its node is not given together with others.
  bool is_set_aside(const DeviceId& device) const;
  // Whether DevicesWork can change anything.
  bool awaits_proof() const { return !faults_.empty(); }
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
    std::optional<protocol::Demand> demand;  // the demand in force
    std::vector<scheduler::Refusal> refusals;
    std::uint64_t sequence = 0;  // of the last Allocation
    std::uint64_t releases_seen = 0;
    std::size_t slot = 0;  // index in view_.jobs
    bool changed = false;  // its devices changed since the last Allocation
    // The job must change its placement: not all changes are devices that it gave back unasked.
    bool moved = false;
    // Some of the changes are on a draining node, or all devices were taken away.
    bool urgent = false;
    bool listed = false;          // contained in touched_
    bool loses_nothing = false;   // it ran on several devices, which did not wait for each other
    double charged_device_s = 0;  // of its attained service, what its queue was charged for
  };

  void on_node_joined(const cluster::NodeJoined& event);
  void on_node_lost(const cluster::NodeLost& event);
  void on_node_draining(const cluster::NodeDraining& event);
  void on_node_vacated(const cluster::NodeVacated& event);
  void on_node_stays(const cluster::NodeStays& event);
  void on_job_admitted(const cluster::JobAdmitted& event);
  void on_job_message(const cluster::FromJob& event);
  void on_device_suspected(const protocol::DeviceSuspected& event);
  void on_device_cleared(const cluster::DeviceCleared& event);
  void on_claim_made(const cluster::ClaimMade& event);
  void on_claim_resized(const cluster::ClaimResized& event);
  void on_claim_ended(const cluster::ClaimEnded& event);
  void on_usage_restored(const cluster::UsageRestored& event);

  void on_demand(Job& job, const protocol::Demand& demand);
  void on_refusals(Job& job, const protocol::JobRefusals& message);
  void on_bound_to_type(Job& job, const protocol::BoundToType& message);
  void on_device_released(Job& job, const protocol::DeviceReleased& message);
  void on_device_failed(Job& job, const protocol::DeviceFailed& message);
  void on_devices_work(Job& job, const protocol::DevicesWork& message);
  void on_job_ended(Job& job, const protocol::JobEnded& message);

  Job* find(const JobId& job);
  void mark_changed(Job& job);
  Status check(const Job& job, const protocol::Demand& demand) const;
  void lose(const std::string& node, bool urgent);
  void empty_vacated_nodes();
  void forget_emptied(const std::string& node);
  double next_leave_s() const;
  void take_back(Job& job, const DeviceSet& devices);
  void give(Job& job, const DeviceSet& devices);
  void schedule();
  void send_changed_allocations();

  // The view (cluster_view.cc).
  void advance(double now_s);
  void touch(Job& job);
  void refresh_view();
  void refresh(Job& job);
  void refresh_progress(Job& job, scheduler::JobView& view);
  void limit_holding(scheduler::JobView& view) const;

  // Prices (cluster_prices.cc).
  void limit_by_price(const Job& job, scheduler::JobView& view);
  void renew_price_limits();
  double next_price_limit_s() const;
  std::vector<double> prices_of(const std::set<DeviceId>& devices) const;

  // Devices on which jobs cannot work (cluster_faults.cc).
  void bring_back(const std::vector<DeviceFaults::Back>& back);
  void forgive(const std::string& node);
  double next_pause_end_s() const;
  std::set<std::string> nodes_for(const Job& job) const;
  DevicePool::Wish wish_of(const Job& job) const;
  bool is_limited(const Job& job) const;
  void touch_limited_jobs();
  bool may_have_part(const Job& job) const;
  void take_again(const Job& job, const std::set<DeviceId>& but);
  void limit_by_faults(const Job& job, scheduler::JobView& view);

  // Waits (cluster_waits.cc).
  void unlimit(const Job& job, scheduler::JobView& view) const;
  WaitText limits_text(const Job& job, const scheduler::JobView& view) const;

  // Expected communication (cluster_sync.cc).
  void note_sync(Job& job);
  void learn_sync(const scheduler::JobView& view, double seconds_per_device);
  void expect_sync(const Job& job, scheduler::JobView& view);
  void renew_expected_sync();
  double next_measured_s() const;

  void expect_change(Job& job);
  void take_slot(Job& job);
  void release_slot(const Job& job);

  // Decayed fair share (cluster_shares.cc).
  void charge(Job& job);
  void share_out();
  double next_share_s() const;

  // Claims (cluster_claims.cc).
  using Claim = cluster::ClaimMade;
  Status check_count(const Claim& claim) const;
  std::uint32_t most_beside(const Claim& claim, bool for_queues) const;
  void serve_claims();
  void end_claims();
  void renew_guarantees();
  double next_claim_s() const;
  bool takes_devices(const Claim& claim) const;
  std::uint32_t missing_to(const Claim& claim) const;
  std::vector<std::pair<JobId, std::uint32_t>> leaving(const DeviceType& type) const;
  void call_back(const DeviceType& type, std::uint32_t count);
  DeviceSet reserved_returning() const;
  void give_back_returned(const std::string& claim);

  const std::unique_ptr<scheduler::Policy> policy_;
  const cluster::Limits limits_;
  DevicePool pool_;
  DeviceFaults faults_;
  std::set<JobId> limited_;            // jobs whose view limit_by_faults() has written
  std::map<std::uint64_t, Job> jobs_;  // by submit number
  std::map<JobId, std::uint64_t> submit_numbers_;
  std::uint64_t next_submit_number_ = 0;
  std::map<std::string, Claim> claims_;
  std::vector<std::string> ended_claims_;  // since the last take_ended_claims()
  // The reservations that view_.queues contains, with their numbers of devices; nullopt:
  // view_.queues is not written yet.
  std::optional<std::map<std::string, std::uint32_t>> guaranteed_;
  // When the devices of a job are to be chosen anew by their prices, by submit number.
  std::map<std::uint64_t, double> price_limits_s_;
  scheduler::SyncPrior sync_prior_;
  bool expectation_changed_ = false;  // since the views of jobs were written
  // When jobs of which communication is expected will have measured it, by submit number.
  std::map<std::uint64_t, double> measured_by_s_;
  struct Vacated {
    double leave_s = 0;
    bool is_empty = false;  // the jobs on it were told to leave, and the pool takes it for lost
  };
  std::map<std::string, Vacated> vacated_;  // by node
  std::uint64_t ignored_events_ = 0;
  std::optional<scheduler::FairShare> shares_;  // nullopt: no fair share
  double shared_s_ = 0;                         // when usage was charged last
  bool usage_changed_ = false;                  // since the last take_usage()
  double now_s_ = 0;
  double decide_again_s_ = scheduler::kNever.count();

  scheduler::ClusterView view_;          // as of the last decision, with later changes
  scheduler::Decisions decided_;         // the waits of the last decision; the rest is carried out
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
