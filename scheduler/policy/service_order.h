#pragma once
// ServiceOrder: the order in which elastic-srtf serves its jobs (elastic_srtf.h defines it), kept
// from one decision to the next.
//
// A job is looked at again when its row has changed, and at the time from which its place may be
// another one (service_line.h). So a decision costs the logarithm of the number of jobs for each of
// these, and nothing for all others. The order is what ranking everybody anew would give.
//
// Not thread-safe.
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/policy/service_line.h"

namespace es::scheduler {

class ServiceOrder {
 public:
  explicit ServiceOrder(double rho_max) { rules_.rho_max = rho_max; }

  // Takes over the rows that the board has written by its last update. REQUIRES: called after every
  // update of the board.
  void update(const Board& board);
  // Puts all jobs in order, as of the board's time.
  void arrange(const Board& board);

  // In the order of service, as of the last arrange().
  const PlaceList& places() const { return places_; }
  const Place& place_of(std::size_t slot) const { return entries_[slot].standing.place; }
  Task task_of(std::size_t slot) const { return entries_[slot].line.task_at(now_s_); }
  double alone_s(std::size_t slot) const { return entries_[slot].line.alone_at(now_s_); }
  // Slots of jobs that are pinned, or keep their minimum.
  const std::set<std::size_t>& fixed() const { return fixed_; }
  // Jobs in a pause, and not pinned: until when, and slots. What those hold that are not fixed, by
  // type.
  const std::set<std::pair<double, std::size_t>>& paused() const { return paused_; }
  const Counts& paused_devices() const { return paused_devices_; }
  double horizon_s() const { return horizon_s_; }  // no schedule is done before this
  double backlog_s() const { return backlog_s_; }  // work of all jobs, seconds of the whole cluster
  double widths() const { return backlog_.widths(); }  // of all jobs together
  double again_s() const { return again_s_; }          // when some waiting job may age, or kNever

 private:
  struct Entry {
    ServiceLine line;
    Standing standing;  // while is_placed
    Backlog::Part part;
    Counts held;
    double longest_s = 0;          // in longest_ with this, not less than alone_at()
    std::int64_t narrow_step = 0;  // in narrow_ with this, not less than the step of alone_at()
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
  // Times at which slots may have to be looked at, a heap with the first one in front. Only that of
  // its next_s counts.
  std::vector<std::pair<double, std::size_t>> alarms_;
  ByTime by_job_seconds_;  // by next_job_seconds
  ByTime longest_;         // finite jobs
  ByTime ages_;            // by ages_s, of those that have one
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
