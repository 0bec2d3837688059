#include "actors/sim/core/recorder.h"

#include <algorithm>
#include <utility>

#include "proto/base/check.h"

namespace es::actors::simulator {

Recorder::Recorder(DeviceSet cluster, std::size_t jobs) : jobs_(jobs), lives_(jobs), spans_(jobs) {
  for (const DeviceCount& c : cluster.counts) types_.push_back(c.type);
  for (Life& life : lives_) life.held_by_type.assign(types_.size(), 0);
  now_.held.assign(types_.size(), 0);
  now_.computing.assign(types_.size(), 0);
  held_device_s_.assign(types_.size(), 0);
  computing_device_s_.assign(types_.size(), 0);
  samples_.push_back(now_);
}

std::size_t Recorder::index_of(const DeviceType& type) const {
  const auto at = std::lower_bound(types_.begin(), types_.end(), type);
  ES_CHECK(at != types_.end() && *at == type);
  return static_cast<std::size_t>(at - types_.begin());
}

// Adds the time since the last change to all integrals, with the counts that were valid during it.
// It has to be called before a count changes.
void Recorder::advance(double now_s) {
  const double passed = now_s - now_.time_s;
  for (std::size_t t = 0; t < types_.size(); ++t) {
    held_device_s_[t] += passed * now_.held[t];
    computing_device_s_[t] += passed * now_.computing[t];
  }
  for (Integral* integral : {&many_nodes_, &many_racks_})
    integral->device_s += passed * integral->devices;
  job_s_ += passed * present_;
  now_.time_s = now_s;
}

// Adds a sample after a change. The newest sample is replaced if it is less than a second old.
void Recorder::sample(double now_s) {
  constexpr double kApart = 1;
  if (now_s - samples_.back().time_s < kApart) {
    const double time_s = samples_.back().time_s;
    samples_.back() = now_;
    samples_.back().time_s = time_s;
  } else {
    samples_.push_back(now_);
  }
}

// The same for the integrals of one job.
void Recorder::settle(std::size_t job, double now_s) {
  Life& life = lives_[job];
  const double passed = now_s - std::exchange(life.since_s, now_s);
  if (life.held == 0) jobs_[job].waiting_s += passed;
  jobs_[job].device_s += passed * life.held;
  jobs_[job].cost += passed * life.price_per_hour / 3600;
}

// The state of the job after a change.
void Recorder::enter_state(std::size_t job, double now_s) {
  const Life& life = lives_[job];
  if (life.is_over) return spans_.leave(job, now_s);
  SpanState state = SpanState::kPauses;
  if (life.held == 0)
    state = SpanState::kWaits;
  else if (!life.stepping.empty())
    state = SpanState::kRuns;
  else if (jobs_[job].first_step_s < 0)
    state = SpanState::kStarts;
  spans_.enter(job, state, life.held_by_type, now_s);
}

void Recorder::submitted(std::size_t job, double now_s) {
  advance(now_s);
  jobs_[job].submit_s = now_s;
  lives_[job].since_s = now_s;
  lives_[job].job_s_at_submit = job_s_;
  ++present_;
  ++now_.waiting;
  enter_state(job, now_s);
  sample(now_s);
}

void Recorder::timed_out(std::size_t job, double now_s) {
  jobs_[job].timed_out = true;
  ended(job, now_s);
}

void Recorder::over_budget(std::size_t job, double now_s) {
  jobs_[job].over_budget = true;
  ended(job, now_s);
}

void Recorder::ended(std::size_t job, double now_s) {
  // The job may end while it makes steps. Its devices stop computing now, although it still holds
  // them for a moment.
  stepping(job, {}, now_s);
  settle(job, now_s);
  jobs_[job].end_s = now_s;
  jobs_[job].sharing_job_s = job_s_ - lives_[job].job_s_at_submit;
  lives_[job].is_over = true;
  if (lives_[job].held == 0) --now_.waiting;
  --present_;
  enter_state(job, now_s);
  sample(now_s);
}

void Recorder::held(std::size_t job, const DeviceType& type, int change, double now_s,
                    double price_per_hour) {
  advance(now_s);
  Life& life = lives_[job];
  if (!life.is_over) settle(job, now_s);
  const bool waited = life.held == 0 && !life.is_over;
  life.held += change;
  life.held_by_type[index_of(type)] += change;
  // Without the condition a rounding error could remain.
  life.price_per_hour = life.held == 0 ? 0 : life.price_per_hour + change * price_per_hour;
  const bool waits = life.held == 0 && !life.is_over;
  // A job that loses its last device makes no step with fewer devices, so this change is counted
  // here and not in stepping().
  if (waits && !waited && std::exchange(life.stepped, 0) > 0) ++jobs_[job].scale_ins;
  now_.waiting += static_cast<std::uint32_t>(waits) - static_cast<std::uint32_t>(waited);
  now_.held[index_of(type)] += change;
  // The time without devices counts as waiting and not as a pause, so the pause begins now.
  if (waited && life.stopped_s >= 0) life.stopped_s = now_s;
  enter_state(job, now_s);
  sample(now_s);
}

void Recorder::stepping(std::size_t job, const DeviceSet& devices, double now_s,
                        const Spread& spread) {
  advance(now_s);
  Life& life = lives_[job];
  JobResult& result = jobs_[job];
  for (const DeviceCount& c : life.stepping.counts) now_.computing[index_of(c.type)] -= c.count;
  for (const DeviceCount& c : devices.counts) now_.computing[index_of(c.type)] += c.count;
  // A pause begins with the last step and ends with the next one. A job that has not made a step
  // yet has no pause: its start is no rescale.
  if (devices.empty() && !life.stepping.empty()) life.stopped_s = now_s;
  if (!devices.empty() && result.first_step_s < 0) result.first_step_s = now_s;
  if (!devices.empty() && life.stopped_s >= 0) {
    ++result.rescales;
    result.rescale_s += now_s - std::exchange(life.stopped_s, -1);
  }
  if (!devices.empty() && devices.total() < life.stepped) ++result.scale_ins;
  if (!devices.empty()) life.stepped = devices.total();
  if (life.spread.nodes > 1) many_nodes_.devices -= life.stepping.total();
  if (life.spread.racks > 1) many_racks_.devices -= life.stepping.total();
  life.stepping = devices;
  life.spread = spread;
  if (spread.nodes > 1) many_nodes_.devices += devices.total();
  if (spread.racks > 1) many_racks_.devices += devices.total();
  enter_state(job, now_s);
  sample(now_s);
}

void Recorder::claimed(int change, double now_s) {
  advance(now_s);
  now_.claimed += change;
  sample(now_s);
}

}  // namespace es::actors::simulator
