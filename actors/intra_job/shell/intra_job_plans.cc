// The job's requests to its companion and to the cluster scheduler. It gives back devices that its
// best plan does not use, proposes devices that it could use, and gives back devices that made it
// slower.
#include <caf/all.hpp>

#include <algorithm>
#include <cstdio>

#include "actors/intra_job/shell/intra_job_actor.h"
#include "actors/protocol/core/durations.h"
#include "actors/protocol/wire/wire_devices.h"
#include "scheduler/model/device_sets.h"
#include "scheduler/plans/plans.h"

namespace es::actors {
namespace {

// Plans are queried again near the end of the job: when the remaining time is less than this
// multiple of the pause of a change. Before that the pause hardly matters.
constexpr double kPausesNearTheEnd = 40;

std::string milliseconds_text(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", seconds * 1e3);
  return text;
}

}  // namespace

// The devices of the job's workers, without those that are being given back.
DeviceSet IntraJobState::held_devices() const {
  DeviceSet held;
  for (const auto& [incarnation, worker] : core_->fleet().workers())
    if (core_->fleet().allocated(worker.device)) held.add(worker.device.type, 1);
  return held;
}

// The devices of the cluster that the job may use and does not hold.
DeviceSet IntraJobState::addable_devices() const {
  const std::optional<DeviceType>& bound = core_->record().bound_type;
  const std::vector<DeviceType> types =
      bound ? std::vector{*bound} : options_.spec.resources.device_types;
  const DeviceSet held = held_devices();
  DeviceSet addable;
  for (const DeviceCount& c : inventory_.counts)
    if (types.empty() || std::ranges::find(types, c.type) != types.end())
      addable.add(c.type, c.count - std::min(c.count, held.count_of(c.type)));
  return addable;
}

Version IntraJobState::steps_left() const {
  return options_.config.last_version - core_->progress();
}

// The companion ranks what more devices would bring. Its answer is ignored while the job wants an
// exact set.
void IntraJobState::query_plans() {
  if (is_over(core_->state()) || !inventory_known_) return;
  const DeviceSet held = held_devices();
  const DeviceSet addable = addable_devices();
  queried_seconds_ = grant_trial_.pace().value_or(0) * static_cast<double>(steps_left());
  ++plan_queries_;
  self_->send(peers_.companion, Msg<wire::PlanQuery>::build({}, [&](wire::PlanQuery::Builder b) {
                put(b.initHeld(held.counts.size()), held);
                put(b.initAddable(addable.counts.size()), addable);
                b.setStepsLeft(steps_left());
                b.setRescaleSeconds(in_seconds(pause_of_a_change()));
              }));
}

void IntraJobState::on_plans(wire::PlanAnswer::Reader r) {
  for (const auto c : r.getCapabilities()) {
    const DeviceType type{c.getDeviceType().cStr()};
    capabilities_[type] = c.getStepsPerSecond();
    if (c.getMeasured()) measured_types_.insert(type);
  }
  if (--plan_queries_ > 0) return;  // a later answer takes the newest allocation into account
  if (demand_is_exact_ || is_over(core_->state())) return;
  const DeviceSet held = held_devices();
  std::vector<wire::Proposal::Reader> proposals;
  for (const auto p : r.getProposals()) {
    DeviceSet after = held;
    after.add({p.getDeviceType().cStr()}, p.getCount());
    if (scheduler::refusal_of(grant_trial_.refusals(), after) == nullptr) proposals.push_back(p);
  }
  self_->send(peers_.cluster,
              Msg<wire::Demand>::build({.job = options_.job}, [&](wire::Demand::Builder b) {
                auto list = b.initProposals(proposals.size());
                for (unsigned i = 0; i < list.size(); ++i) list.setWithCaveats(i, proposals[i]);
                b.setSequence(allocation_sequence_);
                put_progress(b.initProgress());
              }));
}

// Returns whether the job uses exactly the devices that it was last given. A job without a
// placement counts as ready, because it can still take more devices at no cost.
bool IntraJobState::has_adopted() const {
  if (core_->phase() == intra_job::Phase::kIdle) return true;
  if (core_->phase() != intra_job::Phase::kNormal) return false;
  using Phase = intra_job::Worker::Phase;
  return std::ranges::none_of(core_->fleet().workers(), [this](const auto& entry) {
    const intra_job::Worker& worker = entry.second;
    const bool allocated = core_->fleet().allocated(worker.device);
    const bool joins = worker.phase == Phase::kStarting || worker.phase == Phase::kWarm;
    return allocated ? joins : worker.placed && worker.phase == Phase::kKnown;
  });
}

// Local steps per second on the devices in use: measured, or predicted by the model.
double IntraJobState::speed_now() const {
  if (core_->phase() != intra_job::Phase::kNormal || core_->members().empty()) return 0;
  if (const auto pace = grant_trial_.pace()) return options_.spec.max_p / *pace;
  double seconds = 0;
  for (const protocol::Member& member : core_->members()) {
    const DeviceId& device = core_->fleet().workers().at(member.incarnation).device;
    seconds = std::max(seconds, member.ranks.size() / capability_of(device));
  }
  return options_.spec.max_p / seconds;
}

void IntraJobState::put_progress(wire::JobProgress::Builder b) const {
  const double max_p = options_.spec.max_p;
  b.setTotalSteps(max_p * static_cast<double>(options_.config.last_version));
  b.setRemainingSteps(max_p * static_cast<double>(steps_left()));
  b.setStepsPerSecond(speed_now());
  b.setRescaleSeconds(in_seconds(pause_of_a_change()));
  b.setStarted(has_run_ || core_->ledger().through() > options_.config.start_version);
  b.setAdopted(has_adopted());
  auto list = b.initCapabilities(capabilities_.size());
  unsigned i = 0;
  for (const auto& [type, steps_per_second] : capabilities_) {
    list[i].setDeviceType(type.name);
    list[i].setStepsPerSecond(steps_per_second);
    list[i++].setMeasured(measured_types_.contains(type));
  }
}

// A ledger line was added. In a sparse ledger it stands for all steps since the line before.
void IntraJobState::on_step() {
  const Version through = core_->ledger().through();
  const Version steps = through - std::exchange(paced_through_, through);
  if (core_->phase() != intra_job::Phase::kNormal) return;
  if (std::exchange(paced_generation_, core_->generation()) != core_->generation()) {
    grant_trial_.placed(count_by_type(member_devices()), capabilities_, !demand_is_exact_);
    capability_watch_.restart();
  }
  grant_trial_.step(scheduler::Seconds(in_seconds(now())), steps);
  // A change that paid before may not pay any more if little is left to do.
  const double left = grant_trial_.pace().value_or(0) * static_cast<double>(steps_left());
  const bool near_the_end = left < kPausesNearTheEnd * in_seconds(pause_of_a_change());
  if (left > 0 && near_the_end && (queried_seconds_ == 0 || 2 * left < queried_seconds_))
    query_plans();
}

// Gives a grant back that made the job slower.
void IntraJobState::consider_fall_back() {
  const auto verdict = grant_trial_.verdict();
  if (stalled_ || !verdict || core_->phase() != intra_job::Phase::kNormal || demand_is_exact_)
    return;
  log("gives " + verdict->give_back.text() + " back: a step takes " +
      milliseconds_text(verdict->seconds_now) + " with them, " +
      milliseconds_text(verdict->seconds_before) + " without");
  grant_trial_.fall_back();
  keep_refusals();
  give_back(verdict->give_back);
}

// The refusals have changed. They are journaled before a device is given back, and the cluster
// scheduler learns them before it can grant the same devices again.
void IntraJobState::keep_refusals() {
  const Status saved = save_refusals();
  if (saved.ok()) return;
  refusals_wait_ = true;
  stall(saved.error());
}

Status IntraJobState::save_refusals() {
  options_.record.refusals = grant_trial_.refusals();
  ES_RETURN_IF_ERROR(peers_.store->save(options_.record));
  refusals_wait_ = false;
  tell_refusals();
  return {};
}

void IntraJobState::tell_refusals() {
  const std::vector<scheduler::Refusal>& refusals = grant_trial_.refusals();
  self_->send(peers_.cluster,
              Msg<wire::Demand>::build({.job = options_.job}, [&](wire::Demand::Builder b) {
                auto list = b.initRefusals(refusals.size());
                for (unsigned i = 0; i < list.size(); ++i) {
                  const scheduler::Refusal& refusal = refusals[i];
                  put(list[i].initHeld(refusal.held.counts.size()), refusal.held);
                  auto types = list[i].initTypes(refusal.types.size());
                  for (unsigned t = 0; t < types.size(); ++t) types.set(t, refusal.types[t].name);
                }
              }));
}

// Gives devices back that the best plan does not use, because other jobs may use them. Does nothing
// if the job ends soon.
void IntraJobState::release_unused() {
  if (stalled_ || core_->phase() != intra_job::Phase::kNormal || demand_is_exact_) return;
  const double left = grant_trial_.pace().value_or(0) * static_cast<double>(steps_left());
  if (left < kPausesNearTheEnd * in_seconds(pause_of_a_change())) return;
  const DeviceSet held = count_by_type(member_devices());
  const auto is_measured = [this](const DeviceCount& c) {
    return measured_types_.contains(c.type);
  };
  if (held != held_devices() || !std::ranges::all_of(held.counts, is_measured)) return;
  const JobSpec& spec = options_.spec;
  const auto best = scheduler::best_plan({.max_p = spec.max_p,
                                          .capabilities = capabilities_,
                                          .available = held,
                                          .mix_types = spec.level == DeterminismLevel::kD2});
  if (!best || best->plan.devices() == held) return;
  if (best->plan.devices().total() < spec.resources.min_devices) return;
  if (!released_from_.insert(held.text()).second) return;
  const DeviceSet unused = scheduler::beyond(held, best->plan.devices());
  log("gives " + unused.text() + " back: it is as fast without");
  give_back(unused);
}

// Among the devices of a type, those whose workers came last are given back.
void IntraJobState::give_back(DeviceSet rest) {
  intra_job::GiveBackCommand command;
  const std::vector<DeviceId> devices = member_devices();
  for (auto device = devices.rbegin(); device != devices.rend(); ++device) {
    if (rest.count_of(device->type) == 0) continue;
    rest.remove(device->type, 1);
    command.devices.push_back(*device);
  }
  perform(core_->on(intra_job::Event(std::move(command)), now()));
}

}  // namespace es::actors
