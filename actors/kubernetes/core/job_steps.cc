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

// Running for running, TimedOut for timed-out: conditions have words without a dash.
std::string phase_of(const std::string& state) {
  std::string phase;
  bool begins = true;
  for (const char c : state) {
    if (c != '-') phase += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    begins = c == '-';
  }
  return phase;
}

struct Condition {
  std::string type, status, reason, message;
};

Condition accepted(const HeadJob* known, bool has_head, const JobReport& report) {
  const std::string type = "Accepted";
  if (!report.refusal.empty())
    return {type, "False", report.may_come ? "RefusedNow" : "Refused", report.refusal};
  if (known != nullptr)
    return {type, "True", "Accepted", "The head has it as job " + known->id + "."};
  if (!has_head) return {type, "Unknown", "NoHead", "No head of the cluster answers."};
  if (!report.job.empty())
    return {type, "False", "Unknown", "The head has no job " + report.job + " any more."};
  return {type, "Unknown", "NotSubmitted", "The head has not been asked yet."};
}

Condition training(const HeadJob& known, const JobReport& report) {
  if (!report.stop_refusal.empty())
    return {"Training", known.state == "running" ? "True" : "False", "NotStopped",
            report.stop_refusal};
  if (known.state == "running")
    return {"Training", "True", "Running", "It trains on " + known.placement + "."};
  for (const std::string* why : {&report.waits, &known.error, &known.waiting_for})
    if (!why->empty()) return {"Training", "False", phase_of(known.state), *why};
  return {"Training", "False", phase_of(known.state), "The job is " + known.state + "."};
}

Condition complete(const HeadJob& known) {
  const std::string message = known.error.empty() ? "The job is " + known.state + "." : known.error;
  return {known.state == "finished" ? "Complete" : "Failed", "True", phase_of(known.state),
          message};
}

std::string phase_now(const HeadJob* known, const JobReport& report, const Json& old) {
  if (known != nullptr) return phase_of(known->state);
  if (!report.refusal.empty()) return report.may_come ? kWaiting : "Refused";
  return value_at(old, {"phase"}, std::string("Pending"));
}

// Without an answer of the head its last one stands.
void put_facts(Json& status, const HeadJob* known, const Json& old) {
  if (known == nullptr) {
    for (const char* key : {"devices", "step", "lastStep", "placement", "loss", "digest"})
      if (old.contains(key)) status[key] = old[key];
    return;
  }
  status["devices"] = known->devices;
  status["step"] = known->step;
  status["lastStep"] = known->last_step;
  if (!known->placement.empty()) status["placement"] = known->placement;
  if (!known->loss.empty()) status["loss"] = known->loss;
  if (!known->digest.empty()) status["digest"] = known->digest;
}

}  // namespace

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

JobOrder next_step(const Json& job, const HeadJob* known, const std::string& first_type) {
  if (is_being_deleted(job)) {
    if (!has_finalizer(job)) return {};
    const bool lives = known != nullptr && !is_over(*known);
    return {lives ? JobStep::kCancel : JobStep::kRemoveFinalizer};
  }
  if (!has_finalizer(job)) return {JobStep::kAddFinalizer};
  if (text_at(job, {"status", "job"}).empty()) return {JobStep::kSubmit};
  if (known == nullptr || is_over(*known)) return {};
  if (is_suspended(job)) return {known->state == "paused" ? JobStep::kNone : JobStep::kPause};
  // First the devices, so that a job that is resumed does not begin on others.
  std::string demand = demand_of(job, first_type);
  const std::string before = value_at(job, {"status", "demand"}, std::string(kAuto));
  if (demand != before) return {JobStep::kScale, std::move(demand)};
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

void set_condition(Json& conditions, const Json& before, const std::string& type,
                   const std::string& status, const std::string& reason, const std::string& message,
                   std::int64_t generation, const std::string& now) {
  std::string since = now;
  for (const Json& old : before)
    if (text_at(old, {"type"}) == type && text_at(old, {"status"}) == status)
      since = text_at(old, {"lastTransitionTime"});
  conditions.push_back({{"type", type},
                        {"status", status},
                        {"reason", reason},
                        {"message", message},
                        {"lastTransitionTime", since},
                        {"observedGeneration", generation}});
}

Json job_status(const Json& job, const HeadJob* known, bool has_head, const JobReport& report,
                const std::string& now) {
  const std::int64_t generation = value_at(job, {"metadata", "generation"}, std::int64_t{0});
  const Json old = value_at(job, {"status"}, Json::object());
  // Always in this order, because objects with another order are not equal.
  Json status{{"observedGeneration", generation}};
  const std::string id = report.job.empty() ? text_at(old, {"job"}) : report.job;
  const std::string demand = report.demand.empty() ? text_at(old, {"demand"}) : report.demand;
  if (!id.empty()) status["job"] = id;
  if (!demand.empty()) status["demand"] = demand;
  status["phase"] = phase_now(known, report, old);
  put_facts(status, known, old);
  status["selector"] = std::string(kClusterLabel) + "=" +
                       value_at(job, {"spec", "cluster"}, std::string(kDefaultCluster)) + "," +
                       kComponentLabel + "=agent";
  std::vector<Condition> conditions{accepted(known, has_head, report)};
  if (known != nullptr) {
    conditions.push_back(training(*known, report));
    if (is_over(*known)) conditions.push_back(complete(*known));
    if (!report.scale_refusal.empty())
      conditions.push_back({"Scaled", "False", "Refused", report.scale_refusal});
  }
  status["conditions"] = Json::array();
  const Json before = value_at(old, {"conditions"}, Json::array());
  for (const Condition& one : conditions)
    set_condition(status["conditions"], before, one.type, one.status, one.reason, one.message,
                  generation, now);
  return status;
}

}  // namespace es::actors::kubernetes
