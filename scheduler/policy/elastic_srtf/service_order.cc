#include "scheduler/policy/elastic_srtf/service_order.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace es::scheduler {
namespace {

using Row = Board::Row;

constexpr double kCriticalPart = 0.9;  // part of the horizon

ServiceLine line_of(const Board& board, const Row& row) {
  ServiceLine line;
  line.number = row.number;
  line.slot = static_cast<std::uint32_t>(row.slot);
  line.known = row.best_speed > 0 && !board.is_unknown(row);
  line.holds = row.held_total > 0;
  line.pinned = row.pinned;
  line.keeps_minimum = !row.pinned && !row.may_suspend && row.held_total >= row.min_devices;
  line.best_off =
      row.held_total >= row.min_devices && row.held_speed >= row.best_speed * (1 - 1e-9);
  line.priority_rank = -std::int64_t{row.priority};
  line.submit_s = row.submit_s;
  line.paused_until_s = line.holds ? row.paused_until_s : -kNever;
  line.pause_s = row.pause_s;
  line.job_seconds_at_submit = row.job_seconds_at_submit;
  line.deadline_s = row.deadline_s;
  // A key that depends on what a job holds must never give a job that has lost its devices an
  // earlier place. Otherwise two decisions would undo each other.
  line.key_s = line.holds ? -row.pause_s : row.started ? 0 : row.pause_s;
  if (!line.known) return line;
  line.alone_s = row.remaining_steps / row.best_speed;
  line.alone_falls = std::min(1.0, row.steps_per_s / row.best_speed);
  line.from_s = row.progress_from_s;
  line.width = std::min(1.0, row.best_speed / row.cluster_speed);
  line.fair_alone_s = row.total_steps / row.best_speed;
  line.fair_shared_s = row.total_steps / row.cluster_speed;
  return line;
}

}  // namespace

void ServiceOrder::update(const Board& board) {
  const std::size_t slots = board.rows().size();
  if (slots < entries_.size() || board.types() != types_) {  // another view
    *this = ServiceOrder(rules_.rho_max);
    types_ = board.types();
    places_.clear(types_);
    paused_devices_.assign(types_, 0);
  }
  entries_.resize(slots);
  for (const std::size_t slot : board.written()) write(board, slot);
}

void ServiceOrder::write(const Board& board, std::size_t slot) {
  Entry& entry = entries_[slot];
  if (std::exchange(entry.is_placed, false)) {
    move(slot, entry.standing, {});
    places_.erase(entry.standing.place);
    longest_.erase({entry.longest_s, slot});
    fixed_.erase(slot);
    backlog_.add(entry.part, -1);
  }
  const Row& row = board.rows()[slot];
  entry.is_present = row.present;
  if (!row.present) return;
  entry.line = line_of(board, row);
  const auto held = board.held(slot);
  entry.held.assign(held.begin(), held.end());
  list(slot);
}

void ServiceOrder::list(std::size_t slot) {
  if (!std::exchange(entries_[slot].is_listed, true)) due_.push_back(slot);
}

void ServiceOrder::arrange(const Board& board) {
  now_s_ = board.now_s();
  list_due(board);
  for (const std::size_t slot : std::exchange(due_, {})) {
    entries_[slot].is_listed = false;
    if (entries_[slot].is_present) look_at(board, slot);
  }
  find_horizon();
  mark_critical(board);
  again_s_ = waiting_ > 0 ? now_s_ + kAgesSoon : kNever;
  if (!ages_.empty()) again_s_ = std::min(again_s_, ages_.begin()->first);
}

void ServiceOrder::list_due(const Board& board) {
  while (!alarms_.empty() && alarms_.front().first <= now_s_) {
    const auto [time_s, slot] = alarms_.front();
    std::pop_heap(alarms_.begin(), alarms_.end(), std::greater<>());
    alarms_.pop_back();
    if (slot < entries_.size() && entries_[slot].is_placed &&
        entries_[slot].standing.next_s == time_s)
      list(slot);
  }
  for (auto at = by_job_seconds_.begin();
       at != by_job_seconds_.end() && at->first < board.job_seconds(); ++at)
    list(at->second);
}

void ServiceOrder::set_alarm(double time_s, std::size_t slot) {
  if (time_s == kNever) return;
  alarms_.emplace_back(time_s, slot);
  std::push_heap(alarms_.begin(), alarms_.end(), std::greater<>());
  // Outdated entries stay in the heap until it is much larger than the number of jobs.
  if (alarms_.size() <= 64 + 4 * entries_.size()) return;
  std::erase_if(alarms_, [this](const auto& alarm) {
    const Entry& entry = entries_[alarm.second];
    return !entry.is_placed || entry.standing.next_s != alarm.first;
  });
  std::make_heap(alarms_.begin(), alarms_.end(), std::greater<>());
}

void ServiceOrder::look_at(const Board& board, std::size_t slot) {
  Entry& entry = entries_[slot];
  const Standing is = standing_at(entry.line, board, rules_);
  const Backlog::Part part = Backlog::part_of(entry.line, now_s_);
  if (!std::exchange(entry.is_placed, true)) {
    move(slot, {}, is);
    places_.insert(is.place, entry.held);
    entry.longest_s = entry.line.alone_at(now_s_);
    if (entry.line.is_finite()) longest_.emplace(entry.longest_s, slot);
    if (is.place.pinned || is.place.keeps_minimum) fixed_.insert(slot);
    backlog_.add(part, 1);
  } else {
    move(slot, entry.standing, is);
    if (!(is.place == entry.standing.place)) {
      places_.erase(entry.standing.place);
      places_.insert(is.place, entry.held);
    }
    if (!(part == entry.part)) {
      backlog_.add(entry.part, -1);
      backlog_.add(part, 1);
    }
  }
  entry.standing = is;
  entry.part = part;
  set_alarm(is.next_s, slot);
}

// Moves a job between the lists that depend on its standing. A default Standing is on none of them.
void ServiceOrder::move(std::size_t slot, const Standing& was, const Standing& is) {
  if (was.next_job_seconds != is.next_job_seconds) {
    by_job_seconds_.erase({was.next_job_seconds, slot});
    if (is.next_job_seconds < kNever) by_job_seconds_.emplace(is.next_job_seconds, slot);
  }
  if (was.ages_s != is.ages_s) {
    ages_.erase({was.ages_s, slot});
    if (is.ages_s < kNever) ages_.emplace(is.ages_s, slot);
  }
  waiting_ += static_cast<std::size_t>(is.waits) - static_cast<std::size_t>(was.waits);
  move_in_classes(slot, was, is);
  if (was.place.paused != is.place.paused)
    enter_pause(entries_[slot], slot, is.place.paused ? 1 : -1);
}

void ServiceOrder::move_in_classes(std::size_t slot, const Standing& was, const Standing& is) {
  const auto is_critical = [](const Standing& s) {
    return s.may_be_critical && s.place.service() == Service::kCritical;
  };
  const auto is_narrow = [&](const Standing& s) { return s.may_be_critical && !is_critical(s); };
  std::int64_t& step = entries_[slot].narrow_step;
  const bool stays = is_narrow(was) && is_narrow(is) && is.alone_step < rules_.critical_step &&
                     step < rules_.critical_step;
  if (stays) return;
  if (is_critical(was)) critical_.erase({was.alone_step, slot});
  if (is_narrow(was)) narrow_.erase({step, slot});
  step = is.alone_step;
  if (is_critical(is)) critical_.emplace(step, slot);
  if (is_narrow(is)) narrow_.emplace(step, slot);
}

void ServiceOrder::enter_pause(const Entry& entry, std::size_t slot, int sign) {
  const ServiceLine& line = entry.line;
  if (line.pinned) return;
  if (sign > 0) paused_.emplace(line.paused_until_s, slot);
  if (sign < 0) paused_.erase({line.paused_until_s, slot});
  if (line.keeps_minimum) return;
  for (std::size_t t = 0; t < types_; ++t)
    paused_devices_[t] += static_cast<std::uint32_t>(sign) * entry.held[t];
}

// The remaining time of a job only falls, so an earlier value is an upper bound. Only the jobs that
// could be the longest are looked at.
void ServiceOrder::find_horizon() {
  backlog_s_ = backlog_.seconds_at(now_s_);
  double longest_s = 0;
  std::vector<std::size_t> seen;
  while (!longest_.empty() && longest_.rbegin()->first > longest_s) {
    const std::size_t slot = longest_.rbegin()->second;
    longest_.erase(std::prev(longest_.end()));
    Entry& entry = entries_[slot];
    entry.longest_s = entry.line.alone_at(now_s_);
    longest_s = std::max(longest_s, entry.longest_s);
    seen.push_back(slot);
  }
  for (const std::size_t slot : seen) longest_.emplace(entries_[slot].longest_s, slot);
  horizon_s_ = std::max(longest_s, backlog_s_);
}

// Looks at the jobs that have crossed the threshold, either because it moved or because they did.
void ServiceOrder::mark_critical(const Board& board) {
  const std::int64_t threshold = step_of(kCriticalPart * horizon_s_);
  rules_.critical_step = threshold;
  while (!narrow_.empty() && narrow_.rbegin()->first >= threshold)
    look_at(board, narrow_.rbegin()->second);
  while (!critical_.empty() && critical_.begin()->first < threshold)
    look_at(board, critical_.begin()->second);
}

}  // namespace es::scheduler
