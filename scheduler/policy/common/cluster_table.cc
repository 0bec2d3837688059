#include "scheduler/policy/common/cluster_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "scheduler/policy/common/speed.h"

namespace es::scheduler {

void ClusterTable::update(const ClusterView& view) {
  now_s_ = view.now.count();
  // A change of types, queues or totals changes the indices, so everything is built again.
  job_seconds_ = view.job_seconds;
  written_.clear();
  // A new table has seen nothing, even if the cluster has no devices as it has none.
  if (!std::exchange(is_filled_, true) || !view.changed || !has_same_columns(view)) {
    build_columns(view);
    for (std::size_t slot = 0; slot < view.jobs.size(); ++slot) write_row(view.jobs[slot], slot);
  } else {
    add_slots(view.jobs.size());
    for (const std::size_t slot : *view.changed) {
      // The supply is a sum over rows. The old row is subtracted before it is overwritten, and
      // write_row adds the new one.
      add_supply(slot, -1);
      write_row(view.jobs[slot], slot);
    }
  }
  fill(view.free, free_.data());
  fill(view.returning, returning_.data());
  write_supply();
}

void ClusterTable::write_supply() {
  bool is_other = false;
  for (std::size_t t = 0; t < types(); ++t) {
    const std::uint32_t unheld = free_[t] + returning_[t];
    // The sums over the rows are not negative: each subtraction takes away what an addition of the
    // same row has added.
    supply_[t] = unheld + static_cast<std::uint32_t>(elastic_held_[t]);
    // What a claim waits for is not in the total any more, and may still be held.
    const auto all = unheld + static_cast<std::uint32_t>(all_held_[t]);
    is_other |= std::exchange(usable_[t], std::min(total_[t], all)) != usable_[t];
  }
  if (!is_other) return;
  written_.resize(rows_.size());
  std::iota(written_.begin(), written_.end(), std::size_t{0});
}

bool ClusterTable::has_same_columns(const ClusterView& view) const {
  for (const std::size_t slot : *view.changed)
    if (!knows_types_of(view.jobs[slot].held)) return false;
  // Fewer slots than before mean another view.
  return view.jobs.size() >= rows_.size() && view.total == total_set_ &&
         view.queues == given_queues_;
}

void ClusterTable::build_columns(const ClusterView& view) {
  types_.clear();
  const auto add_types = [&](const DeviceSet& set) {
    for (const DeviceCount& c : set.counts) types_.push_back(c.type);
  };
  add_types(view.total);
  add_types(view.free);
  add_types(view.returning);
  // A job may still hold devices of a type that no longer exists in the cluster.
  for (const JobView& job : view.jobs) add_types(job.held);
  for (const Queue& queue : view.queues) add_types(queue.guarantee);
  std::sort(types_.begin(), types_.end());
  types_.erase(std::unique(types_.begin(), types_.end()), types_.end());

  total_set_ = view.total;
  given_queues_ = view.queues;
  queues_ = QueueTree(given_queues_, types_);
  const std::size_t t = types();
  for (Counts* counts : {&total_, &free_, &returning_, &supply_, &usable_}) counts->assign(t, 0);
  fill(view.total, total_.data());
  elastic_held_.assign(t, 0);
  all_held_.assign(t, 0);
  rows_.clear();
  jobs_ = 0;
  refused_.clear();
  under_served_.clear();
  ends_.clear();
  add_slots(view.jobs.size());
}

void ClusterTable::add_slots(std::size_t slots) {
  rows_.resize(slots);
  for (auto* flat : {&held_, &grantable_, &pinned_}) flat->resize(slots * types());
  capabilities_.resize(slots * types());
  sync_.resize(slots);
  attained_by_type_.resize(slots * types());
  refused_.resize(slots);
}

void ClusterTable::write_row(const JobView& job, std::size_t slot) {
  written_.push_back(slot);
  JobRow& row = rows_[slot];
  // With the old number, before the row is overwritten.
  under_served_.erase({row.number, slot});
  ends_.erase({row.end_s, slot});
  jobs_ -= row.present ? 1 : 0;
  row = JobRow();
  row.slot = slot;
  refused_[slot].clear();
  if (job.id.empty()) return;
  row.present = true;
  ++jobs_;
  row.number = job.number;
  row.queue = queues_.index_of(job.queue);
  row.priority = job.priority * static_cast<int>(kShareLevels) - static_cast<int>(job.share_level);
  row.max_p = job.max_p;
  row.min_devices = job.min_devices;
  // More devices than ESTs would be idle. The minimum wins if the bounds contradict each other.
  row.max_devices = std::max(job.min_devices, std::min(job.max_devices, job.max_p));
  row.gang_type = type_index(job.gang_type);
  row.pinned = job.pinned.has_value();
  row.mix_types = job.mix_types;
  row.may_suspend = job.may_suspend;
  row.settled = job.settled;
  row.started = job.started;
  row.submit_s = job.submitted.count();
  row.deadline_s = job.deadline.count();
  // Infinity would become NaN in differences and products, so an unknown length is a large finite
  // number.
  row.total_steps = std::min(job.work.total_steps, kUnknownSteps);
  row.remaining_steps = std::min(job.work.remaining_steps, kUnknownSteps);
  row.steps_per_s = job.work.steps_per_s;
  row.progress_from_s = std::max(job.work.as_of, job.work.paused_until).count();
  row.attained_device_s = job.work.attained_device_s;
  row.changes = job.work.changes;
  row.as_of_s = job.work.as_of.count();
  row.changed_s = job.changed.count();
  row.rescale_s = std::max(rules_.pause_min_s, job.rescale_pause.count());
  row.suspend_s = std::max(rules_.pause_min_s, job.suspend_pause.count());
  // The first start and the restart after a suspension have pauses of their own, which are usually
  // much longer than that of another change.
  row.start_s = job.start_pause.count();
  row.pause_s = !job.started ? row.start_s : job.held.empty() ? row.suspend_s : row.rescale_s;
  row.paused_until_s = job.work.paused_until.count();
  row.job_seconds_at_submit = job.job_seconds_at_submit;
  write_devices(job, slot);
  write_refusals(job, slot);
  write_speeds(job, slot);
  add_supply(slot, 1);
  if (is_under_served(slot)) under_served_.insert({row.number, slot});
  if (row.pinned || row.held_total == 0 || row.steps_per_s <= 0 || is_unknown(row)) return;
  row.end_s = row.progress_from_s + row.remaining_steps / row.steps_per_s;
  ends_.insert({row.end_s, slot});
}

bool ClusterTable::is_under_served(std::size_t slot) const {
  const JobRow& row = rows_[slot];
  // The factor absorbs rounding: both speeds are computed in different ways and may be the same.
  const bool lacks = row.held_total > 0 && row.held_total < row.min_devices;
  if (!row.pinned) return lacks || row.held_speed < row.best_speed * (1 - 1e-9);
  const auto has = held(slot);
  const auto wants = pinned(slot);
  for (std::size_t t = 0; t < types(); ++t)
    if (has[t] < wants[t]) return true;
  return !row.pin_exists;
}

void ClusterTable::write_devices(const JobView& job, std::size_t slot) {
  const std::size_t first = slot * types();
  fill(job.held, held_.data() + first);
  std::fill_n(pinned_.data() + first, types(), 0U);
  if (job.pinned) fill(*job.pinned, pinned_.data() + first);
  rows_[slot].pin_exists = job.pinned && knows_types_of(*job.pinned);
  rows_[slot].held_total = job.held.total();
  std::fill_n(attained_by_type_.data() + first, types(), 0.0);
  for (const Work::Attained& attained : job.work.attained_by_type)
    if (const std::int32_t t = type_index(attained.type); t >= 0)
      attained_by_type_[first + static_cast<std::size_t>(t)] = attained.device_s;
  std::fill_n(grantable_.data() + first, types(), 0U);
  for (const Proposal& p : job.proposals) {
    const std::int32_t t = type_index(p.type);
    // A smaller count than proposed may be granted too, so the largest proposal of the type is the
    // limit.
    if (t >= 0) grantable_[first + t] = std::max(grantable_[first + t], p.count);
  }
}

// A refusal whose devices include a type that does not exist cannot apply to anything that the job
// could be given.
void ClusterTable::write_refusals(const JobView& job, std::size_t slot) {
  for (const Refusal& refusal : job.refusals) {
    if (!knows_types_of(refusal.held)) continue;
    Refused refused{Counts(types(), 0), Counts(types(), 0)};
    fill(refusal.held, refused.held.data());
    for (const DeviceType& type : refusal.types)
      if (const std::int32_t t = type_index(type); t >= 0) refused.types[t] = 1;
    refused_[slot].push_back(std::move(refused));
  }
}

const Counts* ClusterTable::fall_back_of(std::size_t slot,
                                         std::span<const std::uint32_t> counts) const {
  for (const Refused& refused : refused_[slot]) {
    bool more = false, covered = true;
    for (std::size_t t = 0; t < counts.size() && covered; ++t) {
      more = more || counts[t] > refused.held[t];
      covered =
          counts[t] == refused.held[t] || (counts[t] > refused.held[t] && refused.types[t] > 0);
    }
    if (covered && more) return &refused.held;
  }
  return nullptr;
}

void ClusterTable::write_speeds(const JobView& job, std::size_t slot) {
  double* const speeds = capabilities_.data() + slot * types();
  std::fill_n(speeds, types(), 0.0);
  for (const DeviceType& type : job.types) {
    const std::int32_t t = type_index(type);
    if (t < 0) continue;
    const auto known = job.capabilities.find(type);
    if (known != job.capabilities.end()) speeds[t] = known->second;
    // Nothing is known about the job. Equal speeds make policies choose by the number of devices.
    if (job.capabilities.empty()) speeds[t] = 1;
  }
  sync_[slot] = job.sync;
  if (rules_.expects_sync && job.sync.empty() && job.expected_sync_s > 0)
    sync_[slot] = SyncCurve({{2, job.expected_sync_s}});
  JobRow& row = rows_[slot];
  for (std::size_t t = 0; t < types(); ++t) row.cluster_speed += total_[t] * speeds[t];
  row.mix_types ? write_best_mix(row) : write_best_type(row);
  if (row.held_total > 0)
    row.held_speed = mixed_speed(row.max_p, held(slot), capabilities(slot), sync_[slot]);
}

void ClusterTable::write_best_mix(JobRow& row) {
  const auto speeds = capabilities(row.slot);
  Counts best = total_;
  // Every device runs an EST, so the job uses no more than max_p without this.
  if (row.max_devices < row.max_p) keep_fastest(row.max_devices, best, speeds);
  row.best_speed = row.best_capability = mixed_speed(row.max_p, best, speeds, sync_[row.slot]);
  if (sync_[row.slot].empty()) return;
  trim_to_speed(row.max_p, row.best_speed, best, speeds, sync_[row.slot]);
  row.best_capability = mixed_speed(row.max_p, best, speeds);
}

void ClusterTable::write_best_type(JobRow& row) {
  const auto speeds = capabilities(row.slot);
  const SyncCurve& sync = sync_[row.slot];
  for (std::size_t t = 0; t < types(); ++t) {
    const std::uint32_t n = std::min(total_[t], row.max_devices);
    if (n == 0 || speeds[t] <= 0) continue;
    const double speed = one_type_speed(row.max_p, n, speeds[t], sync);
    if (speed <= row.best_speed) continue;
    row.best_speed = speed;
    const std::uint32_t useful = useful_devices(row.max_p, n, speeds[t], sync);
    row.best_capability = one_type_speed(row.max_p, useful, speeds[t]);
  }
}

// A pinned job keeps what it is pinned to, and everything that it holds while it lacks some of
// that.
void ClusterTable::add_supply(std::size_t slot, int sign) {
  const JobRow& row = rows_[slot];
  if (!row.present) return;
  const auto has = held(slot);
  const auto kept = kept_by_pin(slot);
  for (std::size_t t = 0; t < types(); ++t) {
    elastic_held_[t] += sign * std::int64_t{row.pinned ? has[t] - kept[t] : has[t]};
    all_held_[t] += sign * std::int64_t{has[t]};
  }
}

std::span<const std::uint32_t> ClusterTable::kept_by_pin(std::size_t slot) const {
  const bool complete = rows_[slot].pin_exists && covers(held(slot), pinned(slot));
  return complete ? pinned(slot) : held(slot);
}

std::vector<Counts> ClusterTable::entitled() const {
  std::vector<Counts> wanted(queues_.size(), Counts(types(), 0));
  for (const JobRow& row : rows_) {
    if (!row.present) continue;
    const auto has = held(row.slot);
    const auto pin = pinned(row.slot);
    const auto speeds = capabilities(row.slot);
    for (std::size_t t = 0; t < types(); ++t) {
      const std::uint32_t could = row.pinned ? pin[t] : speeds[t] > 0 ? row.max_devices : 0;
      wanted[row.queue][t] += std::max(has[t], std::min(could, total_[t]));
    }
  }
  return queues_.entitled(std::move(wanted), total_);
}

std::int32_t ClusterTable::type_index(const DeviceType& type) const {
  const auto at = std::lower_bound(types_.begin(), types_.end(), type);
  return at != types_.end() && *at == type ? static_cast<std::int32_t>(at - types_.begin()) : -1;
}

bool ClusterTable::knows_types_of(const DeviceSet& set) const {
  return std::all_of(set.counts.begin(), set.counts.end(),
                     [&](const DeviceCount& c) { return type_index(c.type) >= 0; });
}

void ClusterTable::fill(const DeviceSet& set, std::uint32_t* counts) const {
  std::fill_n(counts, types(), 0U);
  for (const DeviceCount& c : set.counts)
    if (const std::int32_t t = type_index(c.type); t >= 0) counts[t] = c.count;
}

double ClusterTable::remaining(const JobRow& row) const {
  const double ran_s = std::max(0.0, now_s_ - row.progress_from_s);
  return std::max(0.0, row.remaining_steps - ran_s * row.steps_per_s);
}

double ClusterTable::attained(const JobRow& row) const {
  return row.attained_device_s + row.held_total * std::max(0.0, now_s_ - row.as_of_s);
}

double ClusterTable::attained_on(const JobRow& row, std::size_t t) const {
  const double held_s = std::max(0.0, now_s_ - row.as_of_s);
  return at(attained_by_type_, row.slot)[t] + held(row.slot)[t] * held_s;
}

double ClusterTable::done(const JobRow& row) const {
  if (is_unknown(row)) return attained(row) / row.max_devices * row.best_speed;
  return row.total_steps - remaining(row);
}

double ClusterTable::fair_speed(const JobRow& row) const {
  const double age = now_s_ - row.submit_s;
  // At the moment of its submission no mean exists, so the job counts as alone.
  const double n = age > 0 ? (job_seconds_ - row.job_seconds_at_submit) / age : 1;
  return std::min(row.best_speed, row.cluster_speed / std::max(1.0, n));
}

DeviceSet ClusterTable::to_set(std::span<const std::uint32_t> counts) const {
  DeviceSet set;
  for (std::size_t t = 0; t < counts.size(); ++t)
    // Types ascend by name, as a DeviceSet requires.
    if (counts[t] > 0) set.counts.push_back({types_[t], counts[t]});
  return set;
}

}  // namespace es::scheduler
