#pragma once
// What the controller does next for one ElasticTrainingJob. Pure, and without memory: each step
// follows from the object and from what the head says, so a controller that begins anew, or takes
// over, continues where another one has ended.
#include <string>

#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

enum class JobStep {
  kNone,
  kAddFinalizer,
  kRemoveFinalizer,
  kSubmit,
  kCancel,
  kPause,
  kResume,
  kScale,
};

struct JobOrder {
  JobStep step = JobStep::kNone;
  std::string demand{};  // of kScale: TYPE:COUNT, or auto
  bool operator==(const JobOrder&) const = default;
};

// The phase of a job that the head refuses now and may accept later. The cluster grows for it.
inline constexpr const char* kWaiting = "Waiting";
// The head may choose the devices.
inline constexpr const char* kAuto = "auto";

// Whether the job shall have no devices.
bool is_suspended(const Json& job);
// The devices that the job asks for: TYPE:COUNT or auto. `first_type`: of the first group of the
// cluster.
std::string demand_of(const Json& job, const std::string& first_type);

// `known`: the job of status.job at the head; null: the head has none.
JobOrder next_step(const Json& job, const HeadJob* known, const std::string& first_type);

// Adds or removes the finalizer: the content of a JSON merge patch, which fails if the object has
// changed meanwhile.
Json finalizer_patch(const Json& job, bool present);

// What happened to the requests about a job, beside what the object and the head say.
struct JobReport {
  std::string job{};      // id of a job that was accepted now
  std::string demand{};   // that the head has accepted now
  std::string refusal{};  // why it does not accept the job; empty: it does
  // Whether it may accept the job later as it is, for example when there are more devices.
  bool may_come = false;
  std::string scale_refusal{};  // why it does not accept the demand; empty: it does
  std::string stop_refusal{};   // why it does not pause or cancel the job; empty: it does
  std::string waits{};          // why the job waits, in sentences; empty: it does not
};

// The whole status of the job. `now`: the time of day in RFC 3339. `known` may be null; `has_head`:
// whether a head has answered.
Json job_status(const Json& job, const HeadJob* known, bool has_head, const JobReport& report,
                const std::string& now);

// A condition of a list; its time changes with its status only.
void set_condition(Json& conditions, const Json& before, const std::string& type,
                   const std::string& status, const std::string& reason, const std::string& message,
                   std::int64_t generation, const std::string& now);

}  // namespace es::actors::kubernetes
