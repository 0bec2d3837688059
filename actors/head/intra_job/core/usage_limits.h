#pragma once
// UsageLimits counts the time in which a job holds devices, and what they cost. It says when
// resources.max_seconds or the budget of the job are used up. Without such a time limit it counts
// no time, and on devices without a price no cost.
//
// Time and cost are parts of the journaled record. They are journaled with every other change, and
// at least once in kJournalEvery, with the date up to which they count. A job that trains on while
// there is no head holds its devices: when a worker of the earlier head comes back, the time since
// that date counts too, at the price of the devices that the job had then. If none comes back, the
// head cannot know how long the job had its devices, and this time does not count.
#include <optional>
#include <set>
#include <string>

#include "actors/head/intra_job/core/job_context.h"

namespace es::actors::intra_job {

// An amount of money or points for users: at most two digits after the point.
std::string amount_text(double amount);
// "its budget of 8 is used up: it has spent 7.93; `esctl budget` gives it more"
std::string budget_text(const JobRecord& record);

class UsageLimits {
 public:
  static constexpr Instant kJournalEvery = std::chrono::minutes(1);
  // A job is paused this time before its budget is used up, because it has to be saved on devices
  // that cost something.
  static constexpr double kSavingSeconds = 5;

  explicit UsageLimits(JobContext& context);

  // A process has said hello. If an earlier head knew it, counts the time without a head.
  void came_back(Incarnation worker);
  // Counts the time since the last look(), if the job held devices then. Called at the begin of
  // every event.
  void update();
  // Looks which devices the job holds from now on. Called at the end of every event.
  void look();
  bool is_time_used_up() const;
  bool is_budget_used_up() const;
  // When a limit is reached, or the usage has to be journaled; nullopt: nothing is counted.
  std::optional<Instant> next() const;
  // "its time limit of 60 s (resources.max_seconds) is used up"
  std::string time_text() const;

 private:
  bool has_time_limit() const { return context_.config.spec.resources.max_seconds > 0; }
  Instant time_limit() const;
  bool awaits_workers() const;
  void add(Instant time, double price_per_s);
  void write_date();
  Instant until_budget_is_used_up() const;

  JobContext& context_;
  std::optional<Instant> counted_to_;  // it has held devices since then
  double price_per_s_ = 0;             // of these devices
  Instant part_{};                     // of the time, counted, less than a millisecond
  Instant journaled_at_{};
  // The workers of the earlier head. The time since its date counts when one of them comes back;
  // until then nothing counts, and the record keeps this date for the head after this one.
  std::set<Incarnation> awaited_;
};

}  // namespace es::actors::intra_job
