// JobPlanner: what it asks for, and what it measures.
#include "actors/head/intra_job/core/job_planner.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "actors/base/protocol/core/instant.h"
#include "scheduler/model/device_sets.h"

namespace es::actors::intra_job {

std::string decimal(double value, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

JobPlanner::JobPlanner(Options options, std::vector<scheduler::Refusal> refusals)
    : options_(std::move(options)), speeds_(options_.level), grant_trial_(std::move(refusals)) {}

double JobPlanner::seconds_left(const PlannerView& job) const {
  return pace_seconds() * static_cast<double>(steps_left(job));
}

bool JobPlanner::is_near_the_end(const PlannerView& job) const {
  return seconds_left(job) < kPausesNearTheEnd * in_seconds(pause());
}

// --- what the job asks for

void JobPlanner::devices_exist(DeviceSet devices) {
  existing_ = std::move(devices);
  existing_known_ = true;
}

// The devices of the cluster that the job may use and does not hold.
DeviceSet JobPlanner::addable_devices(const PlannerView& job) const {
  const std::vector<DeviceType> types =
      job.bound_type ? std::vector{*job.bound_type} : options_.resources.device_types;
  // Devices that other jobs hold count as addable too. Whether the job gets them is the decision of
  // the policy.
  const DeviceSet held = held_devices(job);
  DeviceSet addable;
  for (const DeviceCount& c : existing_.counts)
    if (types.empty() || std::ranges::find(types, c.type) != types.end())
      addable.add(c.type, c.count - std::min(c.count, held.count_of(c.type)));
  return addable;
}

// The companion ranks what more devices would bring. Its answer is ignored while the job wants an
// exact set.
PlannerEffects JobPlanner::ask_for_plans(const PlannerView& job) {
  if (is_over(job.state) || !existing_known_) return {};
  seconds_left_at_query_ = seconds_left(job);
  ++queries_;
  return {protocol::PlanQuery{.held = held_devices(job),
                              .addable = addable_devices(job),
                              .steps_left = steps_left(job),
                              .rescale_seconds = in_seconds(pause()),
                              .measured = speeds_.list_own(),
                              .sync = speeds_.measured_sync()}};
}

protocol::PlanListQuery JobPlanner::list_query(const PlannerView& job) const {
  return {.available = scheduler::sum(held_devices(job), addable_devices(job)),
          .measured = speeds_.list_own(),
          .sync = speeds_.measured_sync()};
}

PlannerEffects JobPlanner::on(const protocol::PlanAnswer& answer, const PlannerView& job) {
  speeds_.learn(answer.capabilities);
  speeds_.learn_sync(answer.sync);
  if (--queries_ > 0) return {};  // a later answer takes the newest allocation into account
  if (demand_is_exact_ || is_over(job.state)) return {};
  const DeviceSet held = held_devices(job);
  reported_ = job.progress;
  protocol::Demand demand{.sequence = allocation_sequence_, .progress = progress_of(job)};
  for (const scheduler::Proposal& proposal : answer.proposals) {
    DeviceSet after = held;
    after.add(proposal.type, proposal.count);
    if (scheduler::refusal_of(refusals(), after) == nullptr) demand.proposals.push_back(proposal);
  }
  return {std::move(demand)};
}

PlannerEffects JobPlanner::report_lost_progress(const PlannerView& job) {
  if (job.progress >= reported_ || demand_is_exact_ || is_over(job.state)) return {};
  reported_ = job.progress;
  return {protocol::Demand{.sequence = allocation_sequence_, .progress = progress_of(job)}};
}

// Local steps per second on the devices in use: measured, or predicted by the model.
double JobPlanner::speed_now(const PlannerView& job) const {
  if (job.phase != Phase::kNormal || job.members.empty()) return 0;
  return options_.max_p / grant_trial_.pace().value_or(model_seconds(job));
}

// A global step lasts as long as its slowest member, and what communication adds.
double JobPlanner::model_seconds(const PlannerView& job) const {
  double seconds = 0;
  for (const protocol::Member& member : job.members) {
    const DeviceId& device = job.fleet.workers().at(member.incarnation).device;
    seconds = std::max(seconds, member.ranks.size() / speeds_.device_capability(device));
  }
  return seconds + speeds_.sync().seconds(static_cast<std::uint32_t>(job.members.size()));
}

protocol::JobProgress JobPlanner::progress_of(const PlannerView& job) const {
  // The cluster scheduler counts local steps, of which a global step has max_p.
  const double max_p = options_.max_p;
  return {.total_steps = max_p * static_cast<double>(options_.last_version),
          .remaining_steps = max_p * static_cast<double>(steps_left(job)),
          .steps_per_second = speed_now(job),
          .rescale_seconds = in_seconds(pause()),
          .suspend_seconds = in_seconds(suspension()),
          // After a restart of the head only the ledger shows that the job has run.
          .started = has_run_ || job.ledger_through > options_.start_version,
          .adopted = has_adopted(job),
          .capabilities = speeds_.list(),
          .sync = speeds_.sync().points(),
          .budget_left = job.budget_left};
}

// While the job changes its placement, it does not know yet what it will want.
PlannerEffects JobPlanner::allocated(std::uint64_t sequence, const PlannerView& job) {
  allocation_sequence_ = sequence;
  return has_adopted(job) ? ask_for_plans(job) : PlannerEffects();
}

PlannerEffects JobPlanner::exact_demand_lifted(const PlannerView& job) {
  demand_is_exact_ = false;
  return ask_for_plans(job);
}

PlannerEffects JobPlanner::state_changed(JobState state, const PlannerView& job) {
  measure_pause(state, job.now);
  if (state != JobState::kRunning) return {};
  has_run_ = true;
  return ask_for_plans(job);
}

// --- what the job measures

// Measures the time from the decision to change until the members step again. This is the cost of a
// change, or slightly more.
void JobPlanner::measure_pause(JobState state, Instant now) {
  if (state == JobState::kRescaling) rescaling_since_ = now;
  // The job waits for devices, which is not part of the cost of a change.
  if (state == JobState::kQueued || state == JobState::kPaused) {
    if (rescaling_since_) stopped_for_ = now - *std::exchange(rescaling_since_, std::nullopt);
    restarting_since_.reset();
  }
  if (state == JobState::kStarting && stopped_for_ && !restarting_since_) restarting_since_ = now;
  if (state != JobState::kRunning) return;
  if (restarting_since_ && stopped_for_) {
    last_suspension_ = *stopped_for_ + (now - *restarting_since_);
    rescaling_since_.reset();
  }
  stopped_for_.reset();
  restarting_since_.reset();
  if (rescaling_since_) last_pause_ = now - *std::exchange(rescaling_since_, std::nullopt);
}

PlannerEffects JobPlanner::step_added(const PlannerView& job) {
  const Version steps = job.ledger_through - std::exchange(paced_through_, job.ledger_through);
  // The steps of a drain are not timed. paced_through_ has passed them, so they do not count later.
  if (job.phase != Phase::kNormal) return {};
  if (std::exchange(paced_generation_, job.generation) != job.generation) {
    grant_trial_.placed(count_by_type(member_devices(job)), speeds_.capabilities(),
                        !demand_is_exact_);
    speeds_.devices_changed();
    blocks_seen_ = 0;
    paced_since_ = job.now;
  }
  grant_trial_.step(scheduler::Seconds(in_seconds(job.now)), steps);
  if (PlannerEffects effects = learn_sync(job); !effects.empty()) return effects;
  // A change that paid before may not pay any more if little is left to do.
  const double left = seconds_left(job);
  // Plans are asked for again whenever the remaining time has halved, and not at each step.
  const bool is_due = seconds_left_at_query_ == 0 || 2 * left < seconds_left_at_query_;
  return left > 0 && is_near_the_end(job) && is_due ? ask_for_plans(job) : PlannerEffects();
}

// Each new block of steps is a sample of what communication costs.
PlannerEffects JobPlanner::learn_sync(const PlannerView& job) {
  const scheduler::StepPace& steps = grant_trial_.steps();
  if (steps.blocks() == std::exchange(blocks_seen_, steps.blocks()) || !steps.newest()) return {};
  const auto point = speeds_.add_step(*steps.newest(), member_devices(job), member_ranks(job));
  // What is known may be used as soon as the job has settled.
  if (!point) return speeds_.sync().empty() ? PlannerEffects() : PlannerEffects{ConsiderChanges{}};
  // With other communication the best plan may be another one.
  released_from_.clear();
  PlannerEffects effects{protocol::CapabilityReport{.reports = {}, .sync = {*point}}};
  for (PlannerEffect& effect : ask_for_plans(job)) effects.push_back(std::move(effect));
  effects.push_back(ConsiderChanges{});
  return effects;
}

PlannerEffects JobPlanner::measured(const StragglerWatch::Measurement& measurement,
                                    const PlannerView& job) {
  const DeviceId& device = measurement.device;
  const auto report = speeds_.add(measurement, member_devices(job));
  if (!report) return {};
  PlannerEffects effects;
  if (const auto changed = speeds_.update_type(device.type, *report))
    effects = capability_changed(device.type, *changed, job);
  if (report->change == StragglerWatch::Change::kNamed)
    effects.push_back(LogLine{"device " + device.text() +
                                  " is slow: " + decimal(report->seconds * 1e3, 1) +
                                  " ms for a local step, " + decimal(speeds_.slowness(device), 1) +
                                  " times what others of its type take or what is usual for it",
                              true});
  if (report->change == StragglerWatch::Change::kCleared)
    effects.push_back(LogLine{"device " + device.text() + " is as fast as usual again"});
  effects.push_back(ConsiderChanges{});
  return effects;
}

PlannerEffects JobPlanner::capability_changed(const DeviceType& type, double steps_per_second,
                                              const PlannerView& job) {
  PlannerEffects effects;
  if (grant_trial_.capability_changed(type, steps_per_second)) effects.push_back(RefusalsChanged{});
  // With another speed the best plan may be another one.
  released_from_.clear();
  effects.push_back(protocol::CapabilityReport{.reports = {{type, steps_per_second, true}}});
  for (PlannerEffect& effect : ask_for_plans(job)) effects.push_back(std::move(effect));
  return effects;
}

}  // namespace es::actors::intra_job
