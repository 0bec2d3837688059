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
// Claims (loads outside of EasyScale) are served before any policy (claim_table.h, call_back.h). A
// device on which jobs cannot work is set aside for a while, which no policy sees
// (device_trials.h).
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

#include "actors/head/cluster_scheduler/core/claim_table.h"
#include "actors/head/cluster_scheduler/core/cluster_events.h"
#include "actors/head/cluster_scheduler/core/device_pool.h"
#include "actors/head/cluster_scheduler/core/device_trials.h"
#include "actors/head/cluster_scheduler/core/job_times.h"
#include "actors/head/cluster_scheduler/core/queue_shares.h"
#include "actors/head/cluster_scheduler/core/sync_forecast.h"
#include "actors/head/cluster_scheduler/core/vacated_nodes.h"
#include "actors/head/cluster_scheduler/core/view_slots.h"
#include "actors/head/cluster_scheduler/core/wait_texts.h"
#include "scheduler/policy/common/policy.h"
#include "scheduler/policy/common/queue_states.h"

namespace es::actors {
class ClusterCore {
 public:
  // REQUIRES: there is a policy.
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
  Status check_claim(const cluster::ClaimMade& claim) const { return claims_.check(claim); }
  // Ok if ClaimResized may follow. Not found: there is no such claim. Refused: as above; a smaller
  // number is never refused.
  Status check_claim(const cluster::ClaimResized& claim) const { return claims_.check(claim); }
  // Error (not found): there is no such claim.
  Status check_claim_end(const std::string& name) const { return claims_.check_end(name); }

  struct ClaimView : ClaimTable::View {
    // The jobs that still have to leave devices of its type, with the number of devices, while the
    // claim lacks some.
    std::vector<std::pair<JobId, std::uint32_t>> waits{};
  };
  // For display, ordered by name.
  std::vector<ClaimView> claims() const;
  // The reservations that have ended by themselves since the last call, by name. The caller removes
  // them from the journal.
  std::vector<std::string> take_ended_claims() { return claims_.take_ended(); }
  // What each leaf has used until now (device-seconds), after it has changed; nullopt if it has not
  // changed since the last call. The caller journals it.
  std::optional<std::vector<std::pair<std::string, double>>> take_usage() {
    return shares_.take_usage();
  }
  // With decayed fair share: device-seconds and level of a queue; nullopt without.
  using ShareView = QueueShares::View;
  std::optional<ShareView> share_of(const std::string& queue) const { return shares_.of(queue); }
  // For display, as of the last decision: the jobs that wait although free devices suffice for
  // them. Only jobs that `shows` allows are named in their texts.
  std::map<JobId, WaitText> waits(const std::function<bool(const JobId&)>& shows) const;
  // For display, in the given order, as of the last decision. Guarantees include reservations.
  std::vector<scheduler::QueueState> queues() const { return scheduler::queue_states(view_); }
  std::vector<DevicePool::NodeView> nodes() const { return pool_.nodes(); }
  // The nodes that cannot be reached from this one, with the time until which no job is given both.
  std::vector<std::pair<std::string, double>> cut_from(const std::string& node) const {
    return trials_.cut_from(node, now_s_);
  }
  // Whether the device is out of use for a time, or its node is not given together with others.
  bool is_set_aside(const DeviceId& device) const { return trials_.is_set_aside(device, now_s_); }
  // Whether DevicesWork can change anything.
  bool awaits_proof() const { return trials_.awaits_proof(); }
  // Devices of live nodes, by type.
  const DeviceSet& existing_devices() const { return pool_.existing_devices(); }
  const std::vector<scheduler::RoomyDevices>& kinds() const { return pool_.kinds(); }
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
    std::uint64_t number = 0;                // submit number
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

  // Events (cluster_core.cc).
  void on_node_joined(const cluster::NodeJoined& event);
  void on_node_stays(const cluster::NodeStays& event);
  void on_job_admitted(const cluster::JobAdmitted& event);
  void on_job_message(const cluster::FromJob& event);
  void on_device_cleared(const cluster::DeviceCleared& event);
  void on_demand(Job& job, const protocol::Demand& demand);
  void on_refusals(Job& job, const protocol::JobRefusals& message);
  void on_device_released(Job& job, const protocol::DeviceReleased& message);
  void on_job_ended(Job& job);
  void count(bool fits) { ignored_events_ += fits ? 0 : 1; }
  void lose(const std::string& node, bool urgent);
  void leave(const std::string& node, bool urgent);

  Job* find(const JobId& job);
  void advance(double now_s);
  void touch(Job& job);
  void mark_changed(Job& job);
  void report(Job& job);
  void note_sync(Job& job);
  void charge(Job& job);
  DeviceTrials::Candidate candidate_of(const Job& job) const;
  std::uint32_t least_workers(const Job& job) const;
  bool lacks_room(const Job& job) const;

  // Decisions (cluster_decisions.cc).
  void share_out();
  void empty_vacated_nodes();
  void renew_guarantees();
  void touch_due_jobs();
  void serve_claims();
  void call_back_for_claims(const DeviceType& type, std::uint32_t count);
  void schedule();
  double next_decision_s() const;
  void take_back(Job& job, const DeviceSet& devices);
  void give(Job& job, const DeviceSet& devices);
  void send_changed_allocations();

  // The view for the policy (cluster_decisions.cc).
  void refresh_view();
  void touch_limited_jobs();
  void refresh(Job& job);
  void limit_by_price(const Job& job, scheduler::JobView& view);

  // For display (cluster_core.cc).
  std::vector<std::pair<JobId, std::uint32_t>> leaving(const DeviceType& type) const;

  const std::unique_ptr<scheduler::Policy> policy_;
  const cluster::Limits limits_;
  DevicePool pool_;
  DeviceTrials trials_{pool_};
  ClaimTable claims_{limits_, pool_};
  QueueShares shares_{limits_};
  SyncForecast sync_{policy_->expects_sync()};
  JobTimes price_limits_;  // when the devices of a job are to be chosen anew by their prices
  VacatedNodes vacated_;
  std::set<JobId> limited_;            // jobs whose view trials_.limit() has written
  std::map<std::uint64_t, Job> jobs_;  // by submit number
  std::map<JobId, std::uint64_t> submit_numbers_;
  std::uint64_t next_submit_number_ = 0;
  std::uint64_t ignored_events_ = 0;
  double now_s_ = 0;
  double decide_again_s_ = scheduler::kNever.count();

  scheduler::ClusterView view_;         // as of the last decision, with later changes
  ViewSlots slots_;                     // of view_.jobs
  scheduler::Decisions decided_;        // the waits of the last decision; the rest is carried out
  std::vector<DeviceType> all_types_;   // types that exist, ascending; view_ was written for these
  std::vector<std::uint64_t> touched_;  // jobs whose view is outdated, by submit number
  std::vector<std::uint64_t> changed_;  // jobs with `changed`, by submit number
  std::vector<cluster::Effect> effects_;  // effects of the running call
};

}  // namespace es::actors
