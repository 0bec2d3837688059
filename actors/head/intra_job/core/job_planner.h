#pragma once
// JobPlanner decides which devices a job asks for and which it gives back, and when its ESTs move:
//
//   asks         It has the companion rank what more devices would bring, and sends the proposals
//                that it does not refuse to the cluster scheduler.
//   adopts       A demand says whether the job uses exactly what it was last given.
//   falls back   A grant that made the job slower is given back and refused from then on.
//   releases     Devices that the best plan does not use are given back, also if they are of no use
//                because of communication. What this costs with fewer devices is only estimated
//                before it was tried (scheduler/model/sync.h), so the estimated gain must exceed
//                the pauses of trying.
//   rebalances   ESTs move if other ranks fit the measured speeds of the devices better.
//
// It owns what these decisions need: the devices of the cluster, the speeds of the job's devices
// (job_speeds.h), the grant that is being judged, and the measured cost of a change.
//
// Pure: an event, the time and a view of the job go in, and effects come out in the order in which
// the shell must perform them. No clock, no I/O, not thread-safe.
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "actors/base/protocol/core/job_plans.h"
#include "actors/head/intra_job/core/job_speeds.h"
#include "actors/head/intra_job/core/planner_view.h"
#include "scheduler/grants/grant_trial.h"

namespace es::actors::intra_job {

// The refusals have changed. They must be journaled before a device is given back, and the cluster
// scheduler must learn them before it can grant the same devices again.
struct RefusalsChanged {};

// Call fall_back(), release_unused() and rebalance() now, each with the job as the one before left
// it.
struct ConsiderChanges {};

// PlanQuery and CapabilityReport go to the companion, and Demand goes to the cluster scheduler. A
// command is an event for the job's core.
using PlannerEffect =
    std::variant<LogLine, protocol::PlanQuery, protocol::CapabilityReport, protocol::Demand,
                 RefusalsChanged, ConsiderChanges, GiveBackCommand, RebalanceCommand>;
using PlannerEffects = std::vector<PlannerEffect>;

// A value as text with this number of decimals, for log lines.
std::string decimal(double value, int digits);

class JobPlanner {
 public:
  // The end of the job is near when the remaining time is less than this multiple of the pause of a
  // change. Before that the pause hardly matters; after that plans are asked for again, and nothing
  // is given back as unused.
  static constexpr double kPausesNearTheEnd = 40;
  // Between two moves of ESTs at least this multiple of the pause and at least this time must pass,
  // so that the changes cost at most a twentieth of the time.
  static constexpr int kPausesApart = 20;
  static constexpr Instant kRebalanceApart = std::chrono::seconds(5);
  // Devices are given back because of communication if a step is then shorter by at least this part
  // of it, and the time saved until the end of the job exceeds this many pauses: one for the
  // change, one for taking it back, and one for what both cause.
  static constexpr double kLeaveGainMin = 0.1;
  static constexpr double kPausesToLeave = 3;
  // They are given back after this time on the present devices at the earliest, because the first
  // steps after a change are slower than later ones: caches, files and other jobs settle.
  static constexpr Instant kSettleTime = std::chrono::seconds(10);

  struct Options {
    std::uint32_t max_p = 1;
    DeterminismLevel level = DeterminismLevel::kD2;
    ResourceSpec resources;  // min_devices and device_types
    Version start_version = 0, last_version = 0;
    Instant pause_assumed{};    // assumed pause of a change, until one was measured
    Instant suspend_assumed{};  // the same of a suspension and the restart after it
  };
  // `refusals` are those that a previous head has journaled.
  JobPlanner(Options options, std::vector<scheduler::Refusal> refusals);

  // The devices that exist in the cluster. No plans are asked for before this is known. Call
  // ask_for_plans() when the job has taken note of the change too.
  void devices_exist(DeviceSet devices);
  PlannerEffects ask_for_plans(const PlannerView& job);
  // The answer to a PlanQuery.
  PlannerEffects on(const protocol::PlanAnswer& answer, const PlannerView& job);
  // The job has handled the Allocation with this sequence.
  PlannerEffects allocated(std::uint64_t sequence, const PlannerView& job);
  // The job wants exact devices, so the planner asks for none until this is lifted.
  void exact_demand() { demand_is_exact_ = true; }
  PlannerEffects exact_demand_lifted(const PlannerView& job);
  PlannerEffects state_changed(JobState state, const PlannerView& job);
  // Call before the job's messages leave. If it is at an older version than the cluster scheduler
  // believes, because its state was lost, it says so: the policy must not count steps that have to
  // be repeated. It proposes again when it steps.
  PlannerEffects report_lost_progress(const PlannerView& job);
  // A ledger line was added. In a sparse ledger it stands for all steps since the line before.
  PlannerEffects step_added(const PlannerView& job);
  // A worker has measured its local steps.
  PlannerEffects measured(const StragglerWatch::Measurement& measurement, const PlannerView& job);

  // Gives a grant back that made the job slower, unless giving back a part of it is expected to
  // make the job faster than it was.
  PlannerEffects fall_back(const PlannerView& job);
  // Gives devices back that the best plan does not use: because other jobs may use them, or because
  // the job is faster without them. Does nothing if the job ends soon.
  PlannerEffects release_unused(const PlannerView& job);
  // Moves ESTs if that pays.
  PlannerEffects rebalance(const PlannerView& job);

  const JobSpeeds& speeds() const { return speeds_; }
  const std::vector<scheduler::Refusal>& refusals() const { return grant_trial_.refusals(); }
  // Seconds of a global step on the current devices; 0 before they are known.
  double pace_seconds() const { return grant_trial_.pace().value_or(0); }
  // For a list of the plans on all devices that the job may use.
  protocol::PlanListQuery list_query(const PlannerView& job) const;

 private:
  Version steps_left(const PlannerView& job) const { return options_.last_version - job.progress; }
  double seconds_left(const PlannerView& job) const;
  bool is_near_the_end(const PlannerView& job) const;
  Instant pause() const { return last_pause_.value_or(options_.pause_assumed); }
  Instant suspension() const { return last_suspension_.value_or(options_.suspend_assumed); }
  void measure_pause(JobState state, Instant now);
  bool may_change_devices(const PlannerView& job) const;
  bool fewer_would_be_faster(const PlannerView& job, double seconds_before) const;
  PlannerEffects learn_sync(const PlannerView& job);
  double model_seconds(const PlannerView& job) const;
  PlannerEffects leave(const DeviceSet& unused, const std::string& why, const PlannerView& job);
  PlannerEffects capability_changed(const DeviceType& type, double steps_per_second,
                                    const PlannerView& job);
  DeviceSet addable_devices(const PlannerView& job) const;
  double speed_now(const PlannerView& job) const;
  protocol::JobProgress progress_of(const PlannerView& job) const;

  const Options options_;
  DeviceSet existing_;
  bool existing_known_ = false;
  JobSpeeds speeds_;
  scheduler::GrantTrial grant_trial_;
  // Device sets of which the job once gave a part back as unused. If it is given such a set again,
  // it keeps it until a speed changes.
  std::set<std::string> released_from_;
  bool demand_is_exact_ = false;
  Version reported_ = 0;                   // the version in the last progress report
  std::uint64_t allocation_sequence_ = 0;  // of the newest Allocation, 0 before the first
  std::uint32_t queries_ = 0;              // queries that the companion has not answered yet
  double seconds_left_at_query_ = 0;       // at the last plan query; 0: not known
  bool has_run_ = false;
  Generation paced_generation_;    // the placement whose steps are timed
  Instant paced_since_{};          // when its first step was seen
  Version paced_through_ = 0;      // the newest timed version
  std::uint64_t blocks_seen_ = 0;  // of the steps on the present devices
  std::optional<Instant> rescaling_since_, last_pause_;
  // A suspension costs the time from the drain until the job is queued, and that from its next
  // devices until it steps. Between the two it waits.
  std::optional<Instant> stopped_for_, restarting_since_, last_suspension_;
  Instant next_rebalance_{};  // earliest time of the next rebalance
};

}  // namespace es::actors::intra_job
