#pragma once
// The next step for one ElasticTrainingJob. Pure, and without memory: it follows from the object
// and from what the head says, so a controller that begins anew, or takes over, continues where
// another one has ended.
#include <string>

#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

enum class JobStep {
  kNone,
  kAddFinalizer,
  kRemoveFinalizer,
  // The others are requests to the head.
  kFind,  // the job that a controller has submitted and not written into the status
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

// The cluster that trains the job. It stays the one that has accepted it.
std::string cluster_of(const Json& job);
// Whether the job shall have no devices.
bool is_suspended(const Json& job);
// The devices that the job asks for: TYPE:COUNT or auto. `first_type`: of the first group of the
// cluster.
std::string demand_of(const Json& job, const std::string& first_type);

// Whether the condition Scaled says that the head has not given the job its demand. Another
// controller may have lost the answer of the head.
bool lacks_demand(const Json& job);

// `known`: the job of status.job at the head; null: the head has none. `lacks`: status.demand is
// asked for again. Never kFind.
JobOrder next_step(const Json& job, const HeadJob* known, const std::string& first_type,
                   bool lacks = false);

// Adds or removes the finalizer: the content of a JSON merge patch, which fails if the object has
// changed meanwhile.
Json finalizer_patch(const Json& job, bool present);

}  // namespace es::actors::kubernetes
