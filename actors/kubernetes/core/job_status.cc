#include "actors/kubernetes/core/job_status.h"

#include "actors/kubernetes/core/conditions.h"
#include "actors/kubernetes/core/job_changes.h"
#include "actors/kubernetes/core/job_steps.h"

namespace es::actors::kubernetes {
namespace {

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
  const std::string runs = known.state == "running" ? "True" : "False";
  if (!report.order_refusal.empty())
    return {"Training", runs, "RefusedOrder", report.order_refusal};
  if (known.state == "running")
    return {"Training", runs, "Running", "It trains on " + known.placement + "."};
  for (const std::string* why : {&known.waits, &known.error, &known.waiting_for})
    if (!why->empty()) return {"Training", runs, phase_of(known.state), *why};
  return {"Training", runs, phase_of(known.state), "The job is " + known.state + "."};
}

// What the head has answered to the demand.
Condition scaled(const JobReport& report, const std::string& demand, const Json& old) {
  using Scaled = JobReport::Scaled;
  const std::string devices = demand == kAuto ? "devices of its choice" : demand;
  switch (report.scaled) {
    case Scaled::kAsked:
      return {"Scaled", "False", "Asked", "The head was asked for " + devices + "."};
    case Scaled::kDone:
      return {"Scaled", "True", "Scaled", "The head has given it " + devices + "."};
    case Scaled::kRefused:
      return {"Scaled", "False", "Refused", report.scale_refusal};
    case Scaled::kUnknown:
      break;
  }
  for (const Json& one : value_at(old, {"conditions"}, Json::array()))
    if (text_at(one, {"type"}) == "Scaled")
      return {"Scaled", text_at(one, {"status"}), text_at(one, {"reason"}),
              text_at(one, {"message"})};
  return {"Scaled", "False", "Asked", "The head was asked for " + devices + "."};
}

Condition unchanged(const Json& submitted, const Json& job) {
  const auto changes = changes_since(submitted, job);
  if (changes.empty())
    return {"Unchanged", "True", "Unchanged", "The job is what the specification says."};
  std::string text;
  for (const std::string& change : changes) text += (text.empty() ? "" : ", ") + change;
  return {"Unchanged", "False", "RefusedChange",
          text + ": the job trains on as it was accepted; only devices and suspend may change."};
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
  status["selector"] =
      std::string(kClusterLabel) + "=" + cluster_of(job) + "," + kComponentLabel + "=agent";
  const Json submitted =
      report.submitted.is_null() ? value_at(old, {"submitted"}, Json()) : report.submitted;
  if (!submitted.is_null()) status["submitted"] = submitted;
  std::vector<Condition> conditions{accepted(known, has_head, report)};
  if (known != nullptr) {
    conditions.push_back(training(*known, report));
    if (is_over(*known)) conditions.push_back(complete(*known));
    if (!demand.empty()) conditions.push_back(scaled(report, demand, old));
  }
  if (!submitted.is_null()) conditions.push_back(unchanged(submitted, job));
  status["conditions"] = Json::array();
  const Json before = value_at(old, {"conditions"}, Json::array());
  for (const Condition& one : conditions)
    set_condition(status["conditions"], before, one.type, one.status, one.reason, one.message,
                  generation, now);
  return status;
}

}  // namespace es::actors::kubernetes
