#pragma once
// ClusterTable is the cluster view in numbers, in the form in which policies compute with it.
//
// Device types become indices 0 .. types()-1 (ascending by name), sets of devices become counts by
// type, and jobs become rows in one array. Only the rows of changed slots are written again. Not
// thread-safe.
#include <algorithm>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/common/counts.h"
#include "scheduler/policy/common/policy.h"
#include "scheduler/policy/common/queue_tree.h"

namespace es::scheduler {

// Times are plain numbers of seconds here, because formulas combine them with speeds.
inline constexpr double kNeverS = kNever.count();

// One job. The devices of the job are in the table, by slot.
struct JobRow {
  std::size_t slot = 0;
  std::uint64_t number = 0;
  std::uint32_t queue = 0;  // index in queues()
  int priority = 0;         // with the share level: higher comes first
  std::uint32_t min_devices = 1;
  std::uint32_t max_devices = 1;  // never more than max_p
  std::uint32_t max_p = 1;
  std::uint32_t held_total = 0;
  std::int32_t gang_type = -1;  // index; -1 if the owner asked for no type
  bool present = false;
  bool pinned = false;
  bool pin_exists = false;  // all types to which it is pinned exist
  bool mix_types = false;
  bool may_suspend = true;
  bool settled = true;
  bool started = false;
  double submit_s = 0;
  double deadline_s = kNeverS;
  double total_steps = 0;  // never more than kUnknownSteps
  double remaining_steps = 0;
  double steps_per_s = 0;
  double progress_from_s = 0;  // remaining_steps falls by steps_per_s from this time on
  double attained_device_s = 0;
  std::uint32_t changes = 0;  // of its devices, after its first start
  double as_of_s = 0;
  double changed_s = 0;
  double start_s = 0;      // cost of its first start
  double pause_s = 0;      // present cost of other devices: of its start, a rescale or a restart
  double rescale_s = 0;    // cost of a later change
  double suspend_s = 0;    // cost of a suspension and the restart after it
  double end_s = kNeverS;  // when it ends if nothing changes; never while it makes no steps
  double paused_until_s = 0;
  double job_seconds_at_submit = 0;
  double cluster_speed = 0;    // sum of all capabilities in the cluster; no schedule is faster
  double best_speed = 0;       // with the best devices of the cluster, without other jobs
  double best_capability = 0;  // what these devices would compute if they did not communicate
  double held_speed = 0;       // with the devices that it holds, by the model
};

// Whether no decision takes the minimum of the job, nor what it has left of it after a loss: it may
// not be suspended.
inline bool keeps_minimum(const JobRow& row) {
  return !row.pinned && !row.may_suspend && row.held_total > 0;
}

// What a policy takes for values that the view leaves open.
struct TableRules {
  // A job of which no communication is known loses what it is expected to lose
  // (JobView::expected_sync_s), and not nothing.
  bool expects_sync = false;
  double pause_min_s = 0;  // a change costs at least this
};

class ClusterTable {
 public:
  explicit ClusterTable(const TableRules& rules = {}) : rules_(rules) {}

  // Stands for work of unknown length. It is longer than any other work, but still a finite number.
  static constexpr double kUnknownSteps = 1e15;

  // Reads the view. The rows of slots that it does not list as changed stay as they are, at no
  // cost.
  void update(const ClusterView& view);

  std::size_t types() const { return types_.size(); }
  const std::vector<DeviceType>& type_names() const { return types_; }
  const std::vector<JobRow>& rows() const { return rows_; }  // by slot
  std::size_t jobs() const { return jobs_; }                 // rows that are present
  // Slots whose rows the last update() wrote, or of which it changed what they can reach.
  const std::vector<std::size_t>& written() const { return written_; }
  double now_s() const { return now_s_; }
  double job_seconds() const { return job_seconds_; }

  const Counts& total() const { return total_; }
  const Counts& free() const { return free_; }
  // Devices on their way back, which will be free without a decision.
  const Counts& returning() const { return returning_; }
  // Devices that can be distributed anew: free ones, returning ones, those held by jobs that are
  // not pinned, and those that pinned jobs will give back.
  const Counts& supply() const { return supply_; }
  // The devices of the cluster without those that are out of use.
  const Counts& usable() const { return usable_; }

  // Under-served jobs, which could be faster, or lack devices to which they are pinned: number and
  // slot, ascending.
  const std::set<std::pair<std::uint64_t, std::size_t>>& under_served() const {
    return under_served_;
  }

  // Jobs that are not pinned and make steps: the time when they end if nothing changes, and slot,
  // ascending. Their devices become free then.
  const std::set<std::pair<double, std::size_t>>& ends() const { return ends_; }

  std::span<const std::uint32_t> held(std::size_t slot) const { return at(held_, slot); }
  // C_i; 0 for a type that the job may not use, or whose speed is not known. While no speed is
  // known, all types that it may use have speed 1.
  std::span<const double> capabilities(std::size_t slot) const { return at(capabilities_, slot); }
  // What the job loses by communication, or is expected to lose (TableRules); empty: nothing.
  const SyncCurve& sync(std::size_t slot) const { return sync_[slot]; }
  // The most devices of each type that the job can be granted while it keeps what it holds.
  std::span<const std::uint32_t> grantable(std::size_t slot) const { return at(grantable_, slot); }
  // The devices to which a pinned job is pinned.
  std::span<const std::uint32_t> pinned(std::size_t slot) const { return at(pinned_, slot); }
  // What a pinned job keeps of the devices that it holds. It gives the others back when it has all
  // devices to which it is pinned.
  std::span<const std::uint32_t> kept_by_pin(std::size_t slot) const;
  // If the job refuses `counts`, the smaller set to which it falls back; otherwise nullptr.
  const Counts* fall_back_of(std::size_t slot, std::span<const std::uint32_t> counts) const;

  const QueueTree& queues() const { return queues_; }
  bool has_queues() const { return !queues_.empty(); }
  // The devices that each queue is entitled to now, by index (QueueTree::entitled). It looks at all
  // jobs.
  std::vector<Counts> entitled() const;
  // The most devices of a type that the job could have if there were no other jobs.
  std::uint32_t reach(const JobRow& row, std::size_t type) const {
    return std::min(usable_[type], queues_.reach(row.queue)[type]);
  }

  double remaining(const JobRow& row) const;
  double attained(const JobRow& row) const;
  // The part of attained() with devices of type t.
  double attained_on(const JobRow& row, std::size_t t) const;
  bool is_unknown(const JobRow& row) const { return row.remaining_steps >= kUnknownSteps; }
  // Local steps done until now. For a job of unknown length it is an estimate: the steps that its
  // attained service would have given, had it always had its best devices.
  double done(const JobRow& row) const;
  // Local steps per second with a 1/n share of the cluster, where n is the mean number of jobs
  // since it was submitted: min(best_speed, cluster_speed / n).
  double fair_speed(const JobRow& row) const;
  DeviceSet to_set(std::span<const std::uint32_t> counts) const;

 private:
  template <class T>
  std::span<const T> at(const std::vector<T>& flat, std::size_t slot) const {
    return std::span(flat).subspan(slot * types_.size(), types_.size());
  }
  bool has_same_columns(const ClusterView& view) const;
  void build_columns(const ClusterView& view);
  void write_row(const JobView& job, std::size_t slot);
  void add_supply(std::size_t slot, int sign);
  void write_supply();
  bool is_under_served(std::size_t slot) const;
  void add_slots(std::size_t slots);
  void write_devices(const JobView& job, std::size_t slot);
  void write_refusals(const JobView& job, std::size_t slot);
  void write_speeds(const JobView& job, std::size_t slot);
  void write_best_mix(JobRow& row);
  void write_best_type(JobRow& row);
  std::int32_t type_index(const DeviceType& type) const;
  bool knows_types_of(const DeviceSet& set) const;
  void fill(const DeviceSet& set, std::uint32_t* counts) const;

  TableRules rules_;
  std::vector<DeviceType> types_;
  std::vector<JobRow> rows_;
  std::size_t jobs_ = 0;
  std::vector<std::size_t> written_;
  std::set<std::pair<std::uint64_t, std::size_t>> under_served_;
  std::set<std::pair<double, std::size_t>> ends_;
  Counts total_, free_, returning_, supply_, usable_;
  // By type: what update() adds to free and returning for the supply, and for what is usable.
  std::vector<std::int64_t> elastic_held_, all_held_;
  std::vector<std::uint32_t> held_, grantable_, pinned_;  // by slot and type
  struct Refused {
    Counts held;
    Counts types;  // 1 for the types that were added
  };
  std::vector<std::vector<Refused>> refused_;            // by slot
  std::vector<double> capabilities_, attained_by_type_;  // by slot and type
  std::vector<SyncCurve> sync_;                          // by slot
  std::vector<Queue> given_queues_;                      // queues_ was built from these
  QueueTree queues_;
  DeviceSet total_set_;
  bool is_filled_ = false;
  double now_s_ = 0;
  double job_seconds_ = 0;
};

}  // namespace es::scheduler
