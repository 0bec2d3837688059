#pragma once
// FullScanDecision: one decision of elastic-srtf by looking at every job. It is the definition of
// the policy. IndexedDecision overrides single steps, and decides the same.
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "scheduler/policy/common/choice.h"
#include "scheduler/policy/common/targets.h"
#include "scheduler/policy/elastic_srtf/makespan.h"

namespace es::scheduler {

// Each value beside the constants says what changes if it moves: the geometric mean over 108 runs
// of policy_study, of the shared traces and of the families of scripts/figures robust with even
// seeds, at 1, 10 and 60 s a rescale (docs/measurements/scheduling.md, "What the constants do").

// A job that comes before the ordinary ones may be this inefficient: with fewer devices it would be
// hardly slower. With 1 the makespan of jobs that communicate is up to 3.9 times as long.
inline constexpr double kHalfComputes = 0.5;

// A job that takes devices which other jobs hold must gain this many times the cost of a change by
// it: the larger one of its own cost and of that of the last job in the order that would lose some,
// which is a suspension if that job would be left with too few. The job that loses them changes
// twice: when it gives them back, and when it gets others. What it then takes from others, and they
// from others again, is charged too. Half and twice as much cost 0.3 % less and 0.4 % more of the
// mean completion time, and 9 % more and 10 % fewer rescales.
inline constexpr double kPausesToTake = 8 * kPausesToGain;

// A job that has nothing waits for an end no longer than this many pauses. Twice as many cost up to
// 8.5 % on single loads, none causes 1 % more rescales.
inline constexpr double kPausesToWait = 2 * kPausesToGain;

// Part of the horizon: until nearly then jobs with several types may use all of them. Without
// scarce types single loads lose up to 14 % of the makespan, and the mean changes by 0.1 %.
inline constexpr double kScarcePart = 0.97;

// A job that may not mix types may begin on a type on which it takes at most this many times as
// long as with its best devices, also if it then ends after the horizon. 0 and 3 change the mean by
// less than 0.1 % and single loads by up to 7 %.
inline constexpr double kSlowType = 1.5;

// A job leaves devices to jobs that can use no others if it then takes at most 1 + max(1, q) times
// as long, where q jobs wait for each of these devices. Each device second that it leaves lets at
// least one job, and with a queue q jobs, end earlier by about a second. Without the lower bound
// two jobs may take devices from each other again and again, because q changes when one of them
// gets some.
inline constexpr double kWorthLeaving = 1;

enum class TargetState : std::uint8_t {
  kNone,       // no target yet
  kMinimum,    // what a job that may not be suspended keeps in any case; its turn is to come
  kTentative,  // a target, which may still change
  kKept,       // the devices that the job holds, finally
};

// Memory that is reused from one decision to the next.
struct DecisionMemory {
  Targets targets;
  std::vector<TargetState> states;  // by slot
  std::vector<std::size_t> marked;  // slots of jobs that may not be kNone
};

class FullScanDecision {
 public:
  // `order` is arranged as of the table's time.
  FullScanDecision(const ClusterTable& table, const ServiceOrder& order, DecisionMemory& memory);
  virtual ~FullScanDecision() = default;
  FullScanDecision(const FullScanDecision&) = delete;
  FullScanDecision& operator=(const FullScanDecision&) = delete;

  // Called once.
  Decisions run();

 protected:
  // Lets jobs in a pause keep what they hold, as far as it is left.
  virtual void keep_paused_jobs();
  // Gives each job its target, in the order of service.
  virtual void serve_in_order();
  // Gives one job the devices with which it ends first, out of those that are left.
  virtual void serve(const QueueEntry& entry);
  // The longest time for which a job that may not mix types may begin on one.
  // `best_speed`: with the best devices of one type.
  virtual double slow_limit_s(const JobRow& row, double best_speed) const;
  // Whether it was decided before the job's turn that it keeps what it holds.
  virtual bool is_kept(const QueueEntry& entry) const;

  void serve_turn(const QueueEntry& entry);
  void serve_guaranteed();
  // The position in the order before which the guaranteed job is served.
  std::size_t guarantee_position() const;
  void keep_paused(const QueueEntry& entry);
  // Lets a job that has no target keep what it holds. Returns false, without a change, if not all
  // of that is left.
  bool keep_held(const QueueEntry& entry);
  void add_paused_devices(std::span<const std::uint32_t> devices, double paused_until_s);
  bool nothing_left() const { return total(targets_.left()) == 0; }
  bool has_no_target(std::size_t slot) const { return states_[slot] == TargetState::kNone; }
  // What the job may choose from: the devices that are left, and those that it was already given.
  Counts choices_of(std::size_t slot) const;
  // What the job may choose from if no other job gives anything up for it.
  Counts idle_choices_of(std::size_t slot, const Counts& left) const;
  // A type is scarce while the work of the jobs that can use no other types takes it until the end
  // of all jobs. An ordinary job that can use other types is given no more devices of it. Returns
  // whether that takes anything from `left`.
  bool leave_scarce(const QueueEntry& entry, Counts& left) const;
  // The best devices for a job. While jobs wait that can use no other types than some of its own,
  // it is given no more of those, if it is not much slower without them; `left` then lacks them.
  Choice choice_of(const QueueEntry& entry, Counts& left);
  // Whether the job leaves devices to others although it would be slower.
  virtual bool may_leave(const QueueEntry& entry) const {
    return entry.service_class() == ServiceClass::kOrdinary;
  }
  // A job that may not mix types stays on the type on which it begins, because its bits depend on
  // it. So it begins on none on which it would end after all others, unless that is fast enough.
  // Returns as leave_scarce().
  bool leave_slow(const QueueEntry& entry, Counts& left) const;
  // A job whose communication is not known needs kEfficient. One that communicates may be less
  // efficient while there are devices for all, or if it comes before the ordinary ones.
  double efficiency_of(const QueueEntry& entry) const;
  ChoiceLimits limits_of(const QueueEntry& entry) const;
  // Serves a job that would take devices which other jobs hold, unless what it gains by that is not
  // worth their pauses. Then it has what is idle, or waits for devices that become free soon.
  void serve_at_a_charge(const QueueEntry& entry, const Counts& left, const Choice& choice);
  // The pause for which a job that takes these devices has to pay. `idle` is what no job loses.
  double taking_pause_s(const JobRow& row, const Counts& wanted, const Counts& idle) const;
  // The end and the slot of a job that ends within this time, and whose devices no other waiting
  // job counts on. From now on this job counts on them.
  std::optional<std::pair<double, std::size_t>> end_to_count_on(const JobRow& row, double seconds);
  // A job that needs many devices at once reserves those that are left until pauses are over.
  // Otherwise some job would always be in a pause, and the wide job would never start.
  void reserve_until_pauses_end(const QueueEntry& entry, Counts left);

  const ClusterTable& table_;
  Targets& targets_;
  TimelyOrder timely_;

 private:
  // Types for which jobs wait that can use no others.
  struct Wanted {
    std::uint64_t types = 0;  // type_bit() of each
    double slower = 1;        // how many times as long a job may take that leaves them
  };
  static std::vector<Wanted> wanted_types(const ClusterTable& table, const ClusterLoad& load);

  void serve_fixed_jobs();
  // Gives the jobs of every queue first what the queue is entitled to.
  void serve_owners();
  // Jobs that were given devices as owners, or were guaranteed some, may have taken others in their
  // turn, after jobs that found nothing left. These are served again.
  void serve_left_behind();
  // Subtracts the devices of the job from what its queue is entitled to, except those that it has
  // used up before.
  void use_up(std::vector<Counts>& owned, std::size_t slot,
              std::span<const std::uint32_t> used = {}) const;
  std::vector<QueueEntry> all_entries() const;
  void mark(std::size_t slot, TargetState state);
  void assign(std::size_t slot, std::span<const std::uint32_t> counts);
  Choice choose(const JobRow& row, const Counts& left, const ChoiceLimits& limits);

  const ServiceOrder& order_;
  std::vector<TargetState>& states_;
  std::vector<std::size_t>& marked_;
  Counts paused_devices_;  // held by jobs in a pause
  // By type: free and returning devices that no job has been given. Negative if jobs in their turn
  // were given more; later jobs lose these.
  std::vector<std::int64_t> idle_;
  const std::uint64_t scarce_;  // type_bit() of each scarce type
  const std::vector<Wanted> wanted_;
  const double communicating_;        // efficiency of ordinary jobs whose communication is known
  std::set<std::size_t> counted_on_;  // slots of jobs whose end another job waits for
  std::vector<std::size_t> leaving_;  // slots of jobs that may have to give up all devices
  bool leaves_nothing_ = false;       // no job leaves devices to others, or waits for better ones
  double pauses_end_s_ = kNeverS;     // when the first pause is over
  double again_s_;
  std::vector<Wait> waits_;
};

}  // namespace es::scheduler
