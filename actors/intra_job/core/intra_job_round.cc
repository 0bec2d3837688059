// IntraJobCore: the round Prepare, Report, Install, Ready, Go, and the changes that lead to one.
#include <algorithm>

#include "actors/intra_job/core/intra_job_core.h"

namespace es::actors::intra_job {

using namespace protocol;

void IntraJobCore::begin_round() {
  clock_.pause(now_);
  loads_.reset();
  reports_.clear();
  ready_.clear();
  drained_.clear();
  members_.clear();
  waits_for_stage_ = false;
  round_since_ = now_;
  forget_suspension_request();
  move_at_end(config_.last_version);
  admit_warm_workers();
  const std::vector<Incarnation> known = fleet_.in_phase(Worker::Phase::kKnown);
  if (known.empty()) {
    wait_for_workers();
    return;
  }
  phase_ = Phase::kPreparing;
  ++record_.generation.value;
  if (record_.state == JobState::kRunning) show_state(JobState::kRescaling);
  // The generation is durable before the first Prepare, because a restarted head must not use it
  // again.
  save();
  for (const Incarnation incarnation : known) send(*fleet_.find(incarnation), Prepare{stamp()});
}

// Joining workers take part from the next round on, if the placement will need them.
void IntraJobCore::admit_warm_workers() {
  if (phase_ == Phase::kIdle && fleet_.in_phase(Worker::Phase::kWarm).empty()) return;
  for (const Incarnation incarnation : fleet_.choose(wanted_at(next_version()), true).workers) {
    fleet_.find(incarnation)->phase = Worker::Phase::kKnown;
  }
}

// No known worker is left. The job continues from its newest saved state when it has processes
// again.
void IntraJobCore::wait_for_workers() {
  phase_ = Phase::kIdle;
  placement_ = {};
  saved_.forget();
  drop_written_checkpoints("all workers were lost before the ledger had its version");
  if (!record_.known.empty()) save();  // from now on their devices may be used again
  progress_ = restart_point().second;
  if (staged()) stage_ = schedule_.stage_at(progress_);
  show_state(fleet_.allocated_set().empty() ? JobState::kQueued : JobState::kStarting);
}

std::optional<std::pair<FromPeer, Version>> IntraJobCore::newest_reported() const {
  std::optional<Version> newest;
  const Worker* holder = nullptr;
  for (const auto& [incarnation, version] : reports_) {
    if (version && (!newest || *version > *newest)) {
      newest = version;
      holder = &fleet_.workers().at(incarnation);
    }
  }
  if (!newest) return std::nullopt;
  return std::pair{FromPeer{holder->incarnation, holder->address, holder->host_id}, *newest};
}

// The round continues when every known worker has reported which version it holds.
void IntraJobCore::install_when_known() {
  if (all_reported()) install();
}

bool IntraJobCore::all_reported() const {
  return phase_ == Phase::kPreparing &&
         reports_.size() == fleet_.in_phase(Worker::Phase::kKnown).size();
}

// REQUIRES: all known workers have reported. If no worker holds a version, this waits until the
// nodes have said what they can read, or gives up all devices.
void IntraJobCore::install() {
  loads_.reset();
  if (const auto newest = newest_reported()) return install(newest->first, newest->second);
  GoOn next = go_on();
  if (next.kind == GoOn::Kind::kAsking) return;
  if (next.kind == GoOn::Kind::kAway || next.kind == GoOn::Kind::kLost) return stand_down();
  if (next.kind == GoOn::Kind::kReadable) give_up_gone(next.state);
  const auto [source, target] = restart_point();
  if (target < ledger_.through())
    log("no worker holds the job's state: going on from version " + std::to_string(target));
  if (next.kind == GoOn::Kind::kReadable) loads_ = std::move(next);
  install(source, target);
}

void IntraJobCore::install(Source source, Version target) {
  phase_ = Phase::kInstalling;
  target_ = progress_ = target;
  const Fleet::Choice choice = fleet_.choose(wanted_at(target), false);
  const std::set<Incarnation> chosen = choice.complete ? choice.workers : fleet_.all_available();
  if (!bind_to_type(chosen)) return stand_down();
  place(chosen);
  if (staged()) {
    stage_ = schedule_.stage_at(target);
    // A stage begins with exactly its devices. Until they are complete, the workers that are
    // present hold the state and wait.
    waits_for_stage_ = !choice.complete && target == schedule_.begin(stage_);
    pause_at_ = waits_for_stage_ ? target : schedule_.end(stage_);
  }
  Install install = make_install(std::move(source));
  for (const Incarnation incarnation : fleet_.in_phase(Worker::Phase::kKnown)) {
    const Worker& worker = *fleet_.find(incarnation);
    if (loads_) {
      const std::string place = place_of(worker);
      install.source = FromCheckpoint{loads_->state.path, place == worker.device.node ? "" : place};
    }
    send(worker, install);
  }
}

void IntraJobCore::place(const std::set<Incarnation>& chosen) {
  std::vector<DeviceId> devices;
  placement_ = {};
  for (auto& [incarnation, worker] : fleet_.workers()) {
    worker.placed = chosen.contains(incarnation);
    if (!worker.placed) continue;
    devices.push_back(worker.device);
    placement_.add(worker.device.type, 1);
  }
  const std::vector<RankRange> ranges = services_.assign_ranks(config_.spec.max_p, devices);
  ES_CHECK(ranges.size() == chosen.size());
  auto range = ranges.begin();
  for (const Incarnation incarnation : chosen) {  // ascending by incarnation, like `devices`
    const Worker& worker = *fleet_.find(incarnation);
    members_.push_back({incarnation, *range++, worker.address, worker.host_id, worker.channel});
  }
  std::sort(members_.begin(), members_.end(),
            [](const Member& a, const Member& b) { return a.ranks.begin < b.ranks.begin; });
}

Install IntraJobCore::make_install(Source source) const {
  Install install{.stamp = stamp(),
                  .target = target_,
                  .members = members_,
                  .source = std::move(source),
                  .bucket_count = config_.bucket_count,
                  .last_version = config_.last_version,
                  .pause_at = pause_at_,
                  .evaluated_through = evaluated_through(),
                  .acknowledged_through = ledger_.through()};
  return install;
}

void IntraJobCore::go() {
  phase_ = Phase::kNormal;
  loads_.reset();
  std::vector<Incarnation> leavers;
  for (const Incarnation incarnation : fleet_.in_phase(Worker::Phase::kKnown)) {
    Worker& worker = *fleet_.find(incarnation);
    if (!worker.placed) {
      worker.phase = Worker::Phase::kLeaving;
      worker.leaving_since = now_;
      leavers.push_back(incarnation);
    }
  }
  acknowledged_ = ledger_.through();
  if (!waits_for_stage_) {
    clock_.go(now_, stage_, placement());
    show_state(JobState::kRunning);
  }
  // The members are durable before Go, and the leavers are no longer in the record: a restarted
  // head expects exactly the workers of its record.
  save();
  begin_audits();
  for (const Member& member : members_) send(*fleet_.find(member.incarnation), Go{stamp()});
  for (const Incarnation incarnation : leavers) send(*fleet_.find(incarnation), Release{stamp()});
  ask_for_checkpoints();
  ask_for_periodic();
}

// Below D2 the kernels of a device type decide the bits. A job that continued on another type would
// end with other bits than one that stayed, and could not load its own saved states. So it is bound
// to the type of its first members, or of the devices that its user asked for. Returns false if
// these workers are on devices of another type. A job with stages is not bound, because its user
// chose the types.
bool IntraJobCore::bind_to_type(const std::set<Incarnation>& workers) {
  if (config_.spec.level == DeterminismLevel::kD2 || staged()) return true;
  const auto type_of = [this](Incarnation worker) { return fleet_.find(worker)->device.type; };
  std::optional<DeviceType> type = record_.bound_type;
  if (!type && record_.pinned) type = record_.pinned->counts.front().type;
  if (!type) type = type_of(*workers.begin());
  if (!std::ranges::all_of(workers, [&](Incarnation w) { return type_of(w) == *type; }))
    return false;
  if (record_.bound_type) return true;
  record_.bound_type = type;
  save();
  log("at level " + std::string(level_name(config_.spec.level)) +
      " the kernels of a device type decide the bits: from now on the job uses " + type->name +
      " only");
  effects_.push_back(BoundToType{*type});
  return true;
}

void IntraJobCore::drain() {
  phase_ = Phase::kDraining;
  drain_since_ = now_;
  show_state(JobState::kRescaling);
  for (const Incarnation incarnation : fleet_.placed()) {
    send(*fleet_.find(incarnation), Drain{stamp()});
  }
}

bool IntraJobCore::all_stopped() const {
  return drained_.size() == members_.size();
}

// Drains for a round with the same members and with ranks that fit their measured speeds.
void IntraJobCore::handle(const RebalanceCommand&) {
  const Version version = next_version();
  const bool stops_soon = version == config_.last_version || (pause_at_ && version >= *pause_at_);
  const bool steps = phase_ == Phase::kNormal && !all_stopped() && !paused() && !suspending_;
  if (steps && !stops_soon) drain();
}

// The members on these devices leave as if the devices had been called back. Ignored for devices
// that the user chose.
void IntraJobCore::handle(const GiveBackCommand& event) {
  if (phase_ != Phase::kNormal || suspending_ || wanted_staff()) return;
  for (const DeviceId& device : event.devices)
    if (fleet_.allocated(device)) fleet_.give_up(device);
}

// Returns whether a member is on a device that the job must give back.
bool IntraJobCore::must_leave() const {
  const std::vector<Incarnation> placed = fleet_.placed();
  return std::any_of(placed.begin(), placed.end(), [this](Incarnation incarnation) {
    return !fleet_.allocated(fleet_.workers().at(incarnation).device);
  });
}

// Starts a planned change if there is one and its workers are ready.
void IntraJobCore::consider_change() {
  if (paused() || suspending_ || stops()) return;
  const Version version = next_version();
  const Fleet::Choice choice = fleet_.choose(wanted_at(version), true);
  if (phase_ == Phase::kIdle) {
    if (choice.complete && may_begin(choice.workers)) begin_round();
    return;
  }
  if (phase_ != Phase::kNormal || version == config_.last_version) return;
  const std::vector<Incarnation> placed = fleet_.placed();
  const bool leaving = must_leave();
  // One worker must keep the state. If no other worker can be a member, leaving waits.
  const bool can_leave =
      !choice.workers.empty() || !fleet_.choose(std::nullopt, false).workers.empty();
  const bool changed =
      choice.complete && choice.workers != std::set<Incarnation>(placed.begin(), placed.end());
  if (all_stopped()) {
    if (choice.complete || (leaving && can_leave)) begin_round();
  } else if (!(pause_at_ && version >= *pause_at_) && (changed || (leaving && can_leave))) {
    drain();
  }
}

}  // namespace es::actors::intra_job
