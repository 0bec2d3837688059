#pragma once
// ServiceOrder is the order in which elastic-srtf serves its jobs (elastic_srtf.h defines it), kept
// from one decision to the next.
//
// A job is looked at again when its row has changed, and at the time from which its place may be
// another one (service_line.h). So a decision costs the logarithm of the number of jobs for each of
// these jobs, and nothing for the others. The order is the same as if all jobs were ranked anew.
//
// Not thread-safe.
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/policy/elastic_srtf/service_line.h"

namespace es::scheduler {

class ServiceOrder {
 public:
  explicit ServiceOrder(double rho_max) { rules_.rho_max = rho_max; }

  // Reads the rows that the board wrote in its last update. REQUIRES: called after every update of
  // the board.
  void update(const Board& board);
  // Puts all jobs in order, as of the board's time.
  void arrange(const Board& board);

  // The jobs in the order of service, as of the last arrange().
  const PlaceList& places() const { return places_; }
  const Place& place_of(std::size_t slot) const { return entries_[slot].standing.place; }
  Task task_of(std::size_t slot) const { return entries_[slot].line.task_at(now_s_); }
  double alone_s(std::size_t slot) const { return entries_[slot].line.alone_at(now_s_); }
  // Slots of jobs that are pinned, or keep their minimum.
  const std::set<std::size_t>& fixed() const { return fixed_; }
  // Jobs in a pause that are not pinned: end of the pause, and slot. paused_devices() is what those
  // of them hold that are not in fixed(), by type.
  const std::set<std::pair<double, std::size_t>>& paused() const { return paused_; }
  const Counts& paused_devices() const { return paused_devices_; }
  double horizon_s() const { return horizon_s_; }  // no schedule ends before this time
  // Work of all jobs, in seconds of the whole cluster.
  double backlog_s() const { return backlog_s_; }
  double widths() const { return backlog_.widths(); }  // sum over all jobs
  double again_s() const { return again_s_; }          // when a waiting job may age, or kNever

 private:
  struct Entry {
    ServiceLine line;
    Standing standing;  // valid while is_placed
    Backlog::Part part;
    Counts held;
    double longest_s = 0;          // key in longest_; not less than alone_at()
    std::int64_t narrow_step = 0;  // key in narrow_; not less than the step of alone_at()
    bool is_present = false;
    bool is_placed = false;
    bool is_listed = false;  // in due_
  };
  using ByTime = std::set<std::pair<double, std::size_t>>;
  using ByStep = std::set<std::pair<std::int64_t, std::size_t>>;

  void write(const Board& board, std::size_t slot);
  void list(std::size_t slot);
  void list_due(const Board& board);
  void set_alarm(double time_s, std::size_t slot);
  void look_at(const Board& board, std::size_t slot);
  void move(std::size_t slot, const Standing& was, const Standing& is);
  void move_in_classes(std::size_t slot, const Standing& was, const Standing& is);
  void enter_pause(const Entry& entry, std::size_t slot, int sign);
  void find_horizon();
  void mark_critical(const Board& board);

  ServiceRules rules_;
  std::vector<Entry> entries_;  // by slot
  std::vector<std::size_t> due_;
  PlaceList places_;
  std::size_t types_ = 0;
  double now_s_ = 0;
  // A heap of times at which slots may have to be looked at, the first one in front. An entry
  // counts only if it is the next_s of its slot.
  std::vector<std::pair<double, std::size_t>> alarms_;
  ByTime by_job_seconds_;  // by next_job_seconds
  ByTime longest_;         // finite jobs
  ByTime ages_;            // by ages_s, of jobs that have one
  ByStep critical_;        // by alone_step
  ByStep narrow_;          // may become critical
  std::set<std::size_t> fixed_;
  ByTime paused_;
  Counts paused_devices_;
  std::size_t waiting_ = 0;  // jobs that wait, and do not age soon
  Backlog backlog_;
  double horizon_s_ = 0, backlog_s_ = 0;
  double again_s_ = kNever;
};

}  // namespace es::scheduler
