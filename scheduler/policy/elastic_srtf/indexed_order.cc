#include "scheduler/policy/elastic_srtf/indexed_order.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace es::scheduler {

void IndexedOrder::update(const ClusterTable& table) {
  const std::size_t slots = table.rows().size();
  if (slots < jobs_.size() || table.types() != types_) {  // another view
    *this = IndexedOrder(rules_.rho_max);
    types_ = table.types();
    queue_.clear(types_);
    paused_devices_.assign(types_, 0);
  }
  jobs_.resize(slots);
  for (const std::size_t slot : table.written()) write(table, slot);
}

void IndexedOrder::write(const ClusterTable& table, std::size_t slot) {
  Job& job = jobs_[slot];
  // The job is removed from all sets with the values with which it was entered, before its forecast
  // changes.
  if (std::exchange(job.is_ranked, false)) {
    reindex(slot, job.ranking, {});
    set_validity(slot, {});
    queue_.erase(job.ranking.entry);
    longest_.erase({job.longest_s, slot});
    fixed_.erase(slot);
    backlogs_.add(job.forecast.types, job.part, -1);
  }
  const JobRow& row = table.rows()[slot];
  job.is_present = row.present;
  // A job that is due stays in due_; arrange() passes it over.
  if (!row.present) return;
  job.forecast = forecast_of(table, row);
  const auto held = table.held(slot);
  job.held.assign(held.begin(), held.end());
  add_due(slot);
}

void IndexedOrder::add_due(std::size_t slot) {
  if (!std::exchange(jobs_[slot].is_due, true)) due_.push_back(slot);
}

void IndexedOrder::arrange(const ClusterTable& table) {
  now_s_ = table.now_s();
  find_due(table);
  for (const std::size_t slot : std::exchange(due_, {})) {
    jobs_[slot].is_due = false;
    if (jobs_[slot].is_present) rank(table, slot);
  }
  find_horizon(table);
  mark_critical(table);
  load_.again_s = waiting_ > 0 ? now_s_ + kAgesSoon : kNeverS;
  if (!ages_.empty()) load_.again_s = std::min(load_.again_s, ages_.begin()->first);
  if (!aged_waiting_.empty())
    load_.again_s = std::min(load_.again_s, aged_again_s(aged_waiting_.begin()->first, now_s_));
  find_next_critical(table);
}

void IndexedOrder::find_due(const ClusterTable& table) {
  while (!alarms_.empty() && alarms_.front().first <= now_s_) {
    const auto [time_s, slot] = alarms_.front();
    std::pop_heap(alarms_.begin(), alarms_.end(), std::greater<>());
    alarms_.pop_back();
    // A job that was ranked again since has another alarm. The old entry is not searched in the
    // heap but ignored here.
    if (slot < jobs_.size() && jobs_[slot].is_ranked && jobs_[slot].validity.until_s == time_s)
      add_due(slot);
  }
  for (auto at = by_job_seconds_.begin();
       at != by_job_seconds_.end() && at->first < table.job_seconds(); ++at)
    add_due(at->second);
}

void IndexedOrder::set_alarm(double time_s, std::size_t slot) {
  if (time_s == kNeverS) return;
  alarms_.emplace_back(time_s, slot);
  std::push_heap(alarms_.begin(), alarms_.end(), std::greater<>());
  // Outdated entries stay in the heap until it is much larger than the number of jobs.
  if (alarms_.size() <= 64 + 4 * jobs_.size()) return;
  std::erase_if(alarms_, [this](const auto& alarm) {
    const Job& job = jobs_[alarm.second];
    return !job.is_ranked || job.validity.until_s != alarm.first;
  });
  std::make_heap(alarms_.begin(), alarms_.end(), std::greater<>());
}

// Ranks one job anew, and enters the result wherever it belongs.
void IndexedOrder::rank(const ClusterTable& table, std::size_t slot) {
  Job& job = jobs_[slot];
  Ranking is = rank_job(job.forecast, table, rules_);
  is.entry.improvable_types = improvable_types_of(job.forecast, table);
  const Backlog::Part part = Backlog::part_of(job.forecast, now_s_);
  if (!std::exchange(job.is_ranked, true)) {
    reindex(slot, {}, is);
    queue_.insert(is.entry, job.held);
    job.longest_s = job.forecast.alone_at(now_s_);
    if (job.forecast.is_finite()) longest_.emplace(job.longest_s, slot);
    if (is.entry.pinned || is.entry.keeps_minimum) fixed_.insert(slot);
    backlogs_.add(job.forecast.types, part, 1);
  } else {
    reindex(slot, job.ranking, is);
    // Most jobs that are due keep their place. Then nothing in the queue changes.
    if (!(is.entry == job.ranking.entry)) {
      queue_.erase(job.ranking.entry);
      queue_.insert(is.entry, job.held);
    }
    if (!(part == job.part)) {
      // In this order, so that its group does not become empty in between.
      backlogs_.add(job.forecast.types, part, 1);
      backlogs_.add(job.forecast.types, job.part, -1);
    }
  }
  job.ranking = is;
  job.part = part;
  set_validity(slot, validity_of(is, job.forecast, table, rules_));
  set_alarm(job.validity.until_s, slot);
}

void IndexedOrder::set_validity(std::size_t slot, const Validity& validity) {
  const Validity was = std::exchange(jobs_[slot].validity, validity);
  if (was.until_job_seconds == validity.until_job_seconds) return;
  by_job_seconds_.erase({was.until_job_seconds, slot});
  if (validity.until_job_seconds < kNeverS)
    by_job_seconds_.emplace(validity.until_job_seconds, slot);
}

// Moves a job between the sets that depend on its ranking. A default Ranking is in none of them.
void IndexedOrder::reindex(std::size_t slot, const Ranking& was, const Ranking& is) {
  if (was.ages_s != is.ages_s) {
    ages_.erase({was.ages_s, slot});
    if (is.ages_s < kNeverS) ages_.emplace(is.ages_s, slot);
  }
  if (was.aged_wait_s != is.aged_wait_s) {
    aged_waiting_.erase({was.aged_wait_s, slot});
    if (is.aged_wait_s < kNeverS) aged_waiting_.emplace(is.aged_wait_s, slot);
  }
  waiting_ += static_cast<std::size_t>(is.waits) - static_cast<std::size_t>(was.waits);
  reindex_class(slot, was, is);
  if (was.entry.paused != is.entry.paused) set_paused(jobs_[slot], slot, is.entry.paused);
}

void IndexedOrder::reindex_class(std::size_t slot, const Ranking& was, const Ranking& is) {
  const auto is_critical = [](const Ranking& r) {
    return r.may_be_critical && r.entry.service_class() == ServiceClass::kCritical;
  };
  const auto is_narrow = [&](const Ranking& r) { return r.may_be_critical && !is_critical(r); };
  const auto waits = [&](const Ranking& r) { return is_narrow(r) && !r.entry.holds; };
  if (waits(was)) waiting_narrow_.erase({was.alone_step, slot});
  if (waits(is)) waiting_narrow_.emplace(is.alone_step, slot);
  std::int64_t& step = jobs_[slot].narrow_step;
  // The key of a narrow job may be too large, because its remaining time only falls. While it is
  // below the threshold, it need not be moved: mark_critical() looks from the largest key on.
  const bool stays = is_narrow(was) && is_narrow(is) && is.alone_step < rules_.critical_step &&
                     step < rules_.critical_step;
  if (stays) return;
  if (is_critical(was)) critical_.erase({was.alone_step, slot});
  if (is_narrow(was)) narrow_.erase({step, slot});
  step = is.alone_step;
  if (is_critical(is)) critical_.emplace(step, slot);
  if (is_narrow(is)) narrow_.emplace(step, slot);
}

void IndexedOrder::set_paused(const Job& job, std::size_t slot, bool is_paused) {
  const JobForecast& forecast = job.forecast;
  if (forecast.pinned) return;
  if (is_paused) {
    paused_.emplace(forecast.paused_until_s, slot);
  } else {
    paused_.erase({forecast.paused_until_s, slot});
  }
  if (forecast.keeps_minimum) return;
  for (std::size_t t = 0; t < types_; ++t) {
    if (is_paused) {
      paused_devices_[t] += job.held[t];
    } else {
      paused_devices_[t] -= job.held[t];
    }
  }
}

// The remaining time of a job only falls, so an earlier value is an upper bound. Only the jobs that
// could be the longest are looked at.
void IndexedOrder::find_horizon(const ClusterTable& table) {
  double longest_s = 0;
  std::vector<std::size_t> seen;
  while (!longest_.empty() && longest_.rbegin()->first > longest_s) {
    const std::size_t slot = longest_.rbegin()->second;
    longest_.erase(std::prev(longest_.end()));
    Job& job = jobs_[slot];
    job.longest_s = job.forecast.alone_at(now_s_);
    longest_s = std::max(longest_s, job.longest_s);
    seen.push_back(slot);
  }
  // Entered only now, with the new values. In the loop the same job would be found again.
  for (const std::size_t slot : seen) longest_.emplace(jobs_[slot].longest_s, slot);
  load_ = cluster_load(backlogs_.loads_at(now_s_, table.total()), longest_s);
}

// Ranks the jobs that have crossed the threshold, either because it moved or because they did.
void IndexedOrder::mark_critical(const ClusterTable& table) {
  const std::int64_t threshold = fine_step(kCriticalPart * load_.horizon_s);
  rules_.critical_step = threshold;
  // Each call of rank() writes the present step as key or moves the job to the other set, so both
  // loops end.
  while (!narrow_.empty() && narrow_.rbegin()->first >= threshold)
    rank(table, narrow_.rbegin()->second);
  while (!critical_.empty() && critical_.begin()->first < threshold)
    rank(table, critical_.begin()->second);
}

// A job whose devices were taken makes steps until it has released them, so a step may be too large
// here. It only falls, so only the largest is looked at, until one is that of now.
void IndexedOrder::find_next_critical(const ClusterTable& table) {
  while (!waiting_narrow_.empty()) {
    const auto [step, slot] = *waiting_narrow_.rbegin();
    if (fine_step(jobs_[slot].forecast.critical_s(now_s_)) == step) {
      load_.again_s = std::min(load_.again_s, critical_at_s(step, load_.horizon_s, now_s_));
      return;
    }
    rank(table, slot);
  }
}

void IndexedOrder::visit_last(const std::function<bool(const QueueEntry&)>& visit) const {
  const auto& blocks = queue_.blocks();
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (block->preemptible == 0) continue;
    for (auto entry = block->entries.rbegin(); entry != block->entries.rend(); ++entry)
      if (entry->is_preemptible() && !visit(*entry)) return;
  }
}

std::vector<QueueEntry> IndexedOrder::fixed() const {
  std::vector<QueueEntry> fixed;
  for (const std::size_t slot : fixed_) fixed.push_back(jobs_[slot].ranking.entry);
  std::sort(fixed.begin(), fixed.end());
  return fixed;
}

}  // namespace es::scheduler
