#pragma once
// The status of an ElasticTrainingJob. Pure.
#include <string>

#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

// What became of the requests about a job, beside what the object and the head say.
struct JobReport {
  std::string job{};      // id of a job that was accepted now
  std::string demand{};   // that the head was asked for now
  Json submitted{};       // what was accepted now, as frozen_spec() has it; null: nothing
  std::string refusal{};  // why it does not accept the job; empty: it does
  // Whether it may accept the job later as it is, for example when there are more devices.
  bool may_come = false;
  // Its answer to the demand; empty: what the object says stands.
  enum class Scaled { kUnknown, kAsked, kDone, kRefused } scaled = Scaled::kUnknown;
  std::string scale_refusal{};  // of kRefused
  std::string order_refusal{};  // why it does not pause, resume or cancel the job; empty: it does
};

// The whole status of the job. `known`: its job at the head, may be null; `has_head`: whether a
// head has answered. `now`: the time of day in RFC 3339.
Json job_status(const Json& job, const HeadJob* known, bool has_head, const JobReport& report,
                const std::string& now);

}  // namespace es::actors::kubernetes
