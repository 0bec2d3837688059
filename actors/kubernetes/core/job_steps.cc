#include "actors/kubernetes/core/job_steps.h"

#include <algorithm>

namespace es::actors::kubernetes {
namespace {

Json finalizers_of(const Json& job) {
  return value_at(job, {"metadata", "finalizers"}, Json::array());
}

bool has_finalizer(const Json& job) {
  const Json all = finalizers_of(job);
  return std::find(all.begin(), all.end(), Json(kFinalizer)) != all.end();
}

}  // namespace

std::string cluster_of(const Json& job) {
  const std::string wanted = value_at(job, {"spec", "cluster"}, std::string(kDefaultCluster));
  return value_at(job, {"status", "submitted", "cluster"}, wanted);
}

bool is_suspended(const Json& job) {
  return value_at(job, {"spec", "suspend"}, false) || value_at(job, {"spec", "devices"}, 1) == 0;
}

std::string demand_of(const Json& job, const std::string& first_type) {
  const int devices = value_at(job, {"spec", "devices"}, 0);
  if (devices == 0) return kAuto;
  const Json types = value_at(job, {"spec", "resources", "deviceTypes"}, Json::array());
  const std::string type =
      types.empty() || !types[0].is_string() ? first_type : types[0].get<std::string>();
  return type + ":" + std::to_string(devices);
}

bool lacks_demand(const Json& job) {
  for (const Json& condition : value_at(job, {"status", "conditions"}, Json::array()))
    if (text_at(condition, {"type"}) == "Scaled") return text_at(condition, {"status"}) != "True";
  return false;
}

JobOrder next_step(const Json& job, const HeadJob* known, const std::string& first_type,
                   bool lacks) {
  if (is_being_deleted(job)) {
    if (!has_finalizer(job)) return {};
    if (known != nullptr && !is_over(*known)) return {JobStep::kCancel};
    // Its processes may end later than the job.
    if (known != nullptr && known->holds > 0) return {};
    return {JobStep::kRemoveFinalizer};
  }
  if (!has_finalizer(job)) return {JobStep::kAddFinalizer};
  if (text_at(job, {"status", "job"}).empty()) return {JobStep::kSubmit};
  if (known == nullptr || is_over(*known)) return {};
  if (is_suspended(job)) return {known->state == "paused" ? JobStep::kNone : JobStep::kPause};
  // First the devices, so that a job that is resumed does not begin on others.
  std::string demand = demand_of(job, first_type);
  const std::string before = value_at(job, {"status", "demand"}, std::string(kAuto));
  if (demand != before || lacks) return {JobStep::kScale, std::move(demand)};
  if (known->state == "paused") return {JobStep::kResume};
  return {};
}

Json finalizer_patch(const Json& job, bool present) {
  Json finalizers = Json::array();
  for (const Json& one : finalizers_of(job))
    if (one != Json(kFinalizer)) finalizers.push_back(one);
  if (present) finalizers.push_back(kFinalizer);
  return {{"metadata",
           {{"resourceVersion", text_at(job, {"metadata", "resourceVersion"})},
            {"finalizers", std::move(finalizers)}}}};
}

}  // namespace es::actors::kubernetes
