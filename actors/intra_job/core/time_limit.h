#pragma once
// TimeLimit counts the time in which a job holds devices, and ends it when resources.max_seconds
// are used up. Without such a limit it does nothing.
//
// The time is a part of the journaled record. It is journaled with every other change, and at least
// once in kJournalEvery, so a crash of the head forgets no more than that. While there is no head,
// no time is counted.
#include <optional>

#include "actors/intra_job/core/job_context.h"

namespace es::actors::intra_job {

class TimeLimit {
 public:
  static constexpr Instant kJournalEvery = std::chrono::minutes(1);

  explicit TimeLimit(JobContext& context) : context_(context) {}

  // Counts the time since the last look(), if the job held devices then. Called at the begin of
  // every event.
  void update();
  // Looks whether the job holds devices from now on. Called at the end of every event.
  void look();
  bool is_used_up() const;
  // When the limit is reached, or the time has to be journaled; nullopt: the job holds no devices.
  std::optional<Instant> next() const;
  // "its time limit of 60 s (resources.max_seconds) is used up"
  std::string text() const;

 private:
  bool has_limit() const { return context_.config.spec.resources.max_seconds > 0; }
  Instant limit() const;

  JobContext& context_;
  std::optional<Instant> counted_to_;  // it has held devices since then
  Instant part_{};                     // counted, less than a millisecond
  Instant journaled_at_{};
};

}  // namespace es::actors::intra_job
