#include "scheduler/policy/service_order.h"

#include <algorithm>
#include <utility>

namespace es::scheduler {
namespace {

using Row = Board::Row;

constexpr double kCriticalPart = 0.9;     // of the horizon
constexpr double kNarrow = 0.125;         // of the cluster
constexpr double kDeadlineMargin = 0.25;  // of the time that the job needs
constexpr double kOverdueFactor = 2;      // beyond rho_max: nobody is moved before such a job

constexpr std::size_t kAhead = 12;  // elements that are fetched before they are needed

}  // namespace

void ServiceOrder::update(const Board& board) {
  if (lines_.size() > board.rows().size()) {  // another view
    lines_.clear();
    arrived_.clear();
  }
  lines_.resize(board.rows().size());
  for (const std::size_t slot : board.written()) write(board, slot);
}

void ServiceOrder::write(const Board& board, std::size_t slot) {
  const Row& row = board.rows()[slot];
  Line& line = lines_[slot];
  const bool placed = line.placed && line.number == row.number && row.present;
  line = Line{.arriving = line.arriving};
  if (!row.present) return;
  line.present = true;
  line.placed = placed;
  if (!placed && !std::exchange(line.arriving, true)) arrived_.push_back(slot);
  line.number = row.number;
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
  // Whatever depends on what it holds must never make a job that lost it come earlier: two
  // decisions would undo each other.
  line.key_s = line.holds ? -row.pause_s : row.started ? 0 : row.pause_s;
  if (!line.known) return;
  line.alone_s = row.remaining_steps / row.best_speed;
  line.alone_falls = row.steps_per_s / row.best_speed;
  line.from_s = row.progress_from_s;
  line.width = std::min(1.0, row.best_speed / row.cluster_speed);
  line.fair_alone_s = row.total_steps / row.best_speed;
  line.fair_shared_s = row.total_steps / row.cluster_speed;
}

void ServiceOrder::arrange(const Board& board) {
  horizon_s_ = backlog_s_ = widths_ = 0;
  again_s_ = kNever;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (i + kAhead < places_.size()) fetch(lines_, places_[i + kAhead].slot);
    const Place& place = places_[i];
    const bool there = place.slot < lines_.size() && lines_[place.slot].placed &&
                       lines_[place.slot].number == place.number;
    if (!there) continue;
    if (kept < i) places_[kept] = place;
    refresh(board, places_[kept++]);
  }
  places_.resize(kept);
  for (const std::size_t slot : arrived_) {
    Line& line = lines_[slot];
    line.arriving = false;
    if (!line.present || line.placed) continue;
    line.placed = true;
    places_.push_back({.number = line.number, .slot = static_cast<std::uint32_t>(slot)});
    refresh(board, places_.back());
  }
  arrived_.clear();
  horizon_s_ = std::max(horizon_s_, backlog_s_);
  mark_critical();
  sort();
}

void ServiceOrder::refresh(const Board& board, Place& place) {
  const Line& line = lines_[place.slot];
  const double now = board.now_s();
  place.rank = line.priority_rank * 8 + static_cast<std::int64_t>(Service::kOrdinary);
  place.pinned = line.pinned;
  place.keeps_minimum = line.keeps_minimum;
  place.holds = line.holds;
  place.best_off = line.best_off;
  place.paused = now < line.paused_until_s;
  if (!line.known) return refresh_unknown(board, line, place);

  const double ran_s = std::max(0.0, now - line.from_s);
  place.alone_s = std::clamp(line.alone_s - ran_s * line.alone_falls, 0.0, Board::kUnknownSteps);
  place.task = {line.width, place.alone_s * line.width};
  const double rest_of_pause_s = std::max(0.0, line.paused_until_s - now);
  place.key = std::max(0.0, place.alone_s + rest_of_pause_s + line.key_s) * line.width;
  if (place.alone_s < Board::kUnknownSteps) {
    horizon_s_ = std::max(horizon_s_, place.alone_s);
    backlog_s_ += place.task.work_s;
    widths_ += line.width;
  }

  const double needs_s = place.alone_s * (1 + kDeadlineMargin) + line.pause_s;
  if (now < line.deadline_s && now + needs_s >= line.deadline_s) {
    place.set_service(Service::kUrgent);
    place.key = line.deadline_s;
    return;
  }
  const double age_s = now - line.submit_s;
  const double sharing = age_s > 0 ? (board.job_seconds() - line.job_seconds_at_submit) / age_s : 1;
  const double fair_s =
      line.pause_s + std::max(line.fair_alone_s, line.fair_shared_s * std::max(1.0, sharing));
  age(board, line, place.alone_s, fair_s, place);
}

// After all others, those that were given least so far first. Not part of any projection.
void ServiceOrder::refresh_unknown(const Board& board, const Line& line, Place& place) {
  const Row& row = board.rows()[place.slot];
  place.alone_s = Board::kUnknownSteps;
  place.task = {};
  place.key = Board::kUnknownSteps + board.attained(row);
  if (row.best_speed > 0)  // it ages by the steps that it has done
    age(board, line, 0, row.pause_s + board.done(row) / board.fair_speed(row), place);
}

// `more_s`: until it is done. `fair_s`: from start to end with a 1/n share of the cluster.
void ServiceOrder::age(const Board& board, const Line& line, double more_s, double fair_s,
                       Place& place) {
  const double late_s = board.now_s() - line.submit_s + more_s;
  const double bound_s = std::max(fair_s, 1.0);
  if (late_s > rho_max_ * bound_s) {
    const double rho = late_s / bound_s;
    place.set_service(rho > kOverdueFactor * rho_max_ ? Service::kOverdue : Service::kAged);
    place.key = -rho;
  } else if (!line.holds && !line.pinned) {
    // When it ages into that class, should nothing happen before.
    const double later_s = (rho_max_ * bound_s - late_s) * (fair_s / bound_s);
    again_s_ = std::min(again_s_, board.now_s() + std::max(1.0, later_s));
  }
}

void ServiceOrder::mark_critical() {
  const double critical_s = kCriticalPart * horizon_s_;
  for (Place& place : places_) {
    if (place.alone_s < critical_s || place.alone_s >= Board::kUnknownSteps) continue;
    if (place.service() != Service::kOrdinary || place.task.width > kNarrow) continue;
    place.set_service(Service::kCritical);
    place.key = -place.alone_s;
  }
}

// Insertion sort, while few elements are out of place.
void ServiceOrder::sort() {
  std::size_t shifts_left = 16 * places_.size();
  for (std::size_t i = 1; i < places_.size(); ++i) {
    if (!(places_[i] < places_[i - 1])) continue;
    const Place place = places_[i];
    const auto end = places_.begin() + static_cast<std::ptrdiff_t>(i);
    const auto at = std::upper_bound(places_.begin(), end, place);
    const auto shifts = static_cast<std::size_t>(end - at);
    if (shifts > shifts_left) return std::sort(places_.begin(), places_.end());
    shifts_left -= shifts;
    std::move_backward(at, end, end + 1);
    *at = place;
  }
}

}  // namespace es::scheduler
