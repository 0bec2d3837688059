#pragma once
// JobKeeper: what is done now for one ElasticTrainingJob, while answers of the head are awaited. It
// adds to next_step() (job_steps.h) what was asked and not answered yet, and what was refused. A
// keeper that begins anew finds in the object all that it needs. Pure.
//
// The demand is written into the status before the head is asked for it, so that a controller that
// takes over asks again if the answer was lost.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/job_status.h"
#include "actors/kubernetes/core/job_steps.h"
#include "actors/kubernetes/core/names.h"
#include "proto/base/result.h"

namespace es::actors::kubernetes {

struct Surroundings {
  const HeadFacts* head = nullptr;  // null: none answers
  bool has_cluster = true;          // false: its object is gone
  std::string first_type{};         // of the first group
  std::chrono::steady_clock::time_point now{};
  std::string clock{};       // the time of day in RFC 3339
  std::uint64_t number = 0;  // of a request that is made now; larger than those before
};

// What is to be done; each part may be absent.
struct JobWork {
  std::optional<JobOrder> ask{};     // of the head, as the request `number`
  std::optional<Json> finalizers{};  // a JSON merge patch of the object
  std::optional<Json> status{};      // to be written
};

struct HeadAnswer {
  std::uint64_t number = 0;  // of the request
  std::uint64_t look = 0;    // number of the last facts that do not show its effect
  std::string job{};         // of kSubmit and kFind: its id; empty: there is none
  // Error (failure): no answer came, and the request may have been carried out.
  Status status{};
};

class JobKeeper {
 public:
  // The pause before a request that was refused is made again.
  static constexpr std::chrono::seconds kAskAgain{5};

  JobWork decide(const Json& object, const Surroundings& around);
  // The id of the job at the head; empty: none is known.
  const std::string& id() const { return report_.job; }
  void answered(const HeadAnswer& answer, std::chrono::steady_clock::time_point now);
  // `status`, of decide(), was written. Returns the event that tells it; no value: it is no news.
  std::optional<Json> written(const Json& object, const Json& status, const std::string& clock);

 private:
  Json with_report(const Json& object) const;
  bool lacks(const Json& job) const;
  void follow(const JobOrder& order, const Json& job, const Surroundings& around, JobWork& work);
  void ask(const JobOrder& order, const Surroundings& around, JobWork& work);
  void take(const JobOrder& order, const HeadAnswer& answer);

  JobReport report_;
  std::optional<JobOrder> asked_;   // and not answered
  std::uint64_t asked_number_ = 0;  // of that request
  Json asked_spec_;                 // of kSubmit: what was submitted
  std::int64_t asked_generation_ = -1;
  std::uint64_t settled_at_ = 0;     // the last facts that are older than an answer
  std::optional<JobOrder> refused_;  // and is asked again at
  std::chrono::steady_clock::time_point again_at_{};
  std::int64_t refused_generation_ = -1;  // that the head will never accept
  bool searched_ = false;                 // the head has no job that the object does not name
  Json written_;                          // the last status
  std::string told_;                      // the last event
};

}  // namespace es::actors::kubernetes
