#include "actors/views/explain.h"

#include <nlohmann/json.hpp>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

std::string steps_text(const JobView& job) {
  return "step " + std::to_string(job.step) + " of " + std::to_string(job.last_step);
}

std::string summary_of(const JobView& job) {
  const std::string name = "Job " + job.id;
  if (job.state == "finished")
    return name + " has finished " + counted(job.last_step, "step") + ".";
  if (job.state == "failed") return name + " failed at " + steps_text(job) + ": " + job.error + ".";
  if (job.state == "timed-out")
    return name + " has ended at " + steps_text(job) + ", because " + job.error + ".";
  if (job.state == "cancelled") return name + " was cancelled at " + steps_text(job) + ".";
  if (job.state == "paused") return name + " is paused at " + steps_text(job) + ".";
  if (job.state == "queued") return name + " waits at " + steps_text(job) + ".";
  const std::string where = job.placement.empty() ? "" : " on " + job.placement;
  if (job.state == "starting") return name + " starts" + where + ".";
  if (job.state == "rescaling")
    return name + " changes its devices at " + steps_text(job) + where + ".";
  return name + " trains" + where + ", at " + steps_text(job) + ", " +
         rate_text(job.samples_per_second_now) + " samples/s.";
}

bool trains(const JobView& job) {
  return job.state == "running" || job.state == "rescaling";
}

}  // namespace

Explanation explain(const ClusterFacts& facts) {
  Explanation explanation{.summary = summary_of(facts.job)};
  std::vector<Reason>& reasons = explanation.reasons;
  reasons = reasons_of_wait(facts);
  if (trains(facts.job)) {
    const std::vector<Reason> speed = reasons_of_speed(facts);
    reasons.insert(reasons.end(), speed.begin(), speed.end());
  }
  if (!facts.job.warning.empty())
    reasons.push_back({"warning", "There is a warning: " + facts.job.warning + "."});
  return explanation;
}

std::string explanation_text(const Explanation& explanation) {
  std::string text = explanation.summary + "\n";
  for (const Reason& reason : explanation.reasons) {
    text += "* " + reason.text + "\n";
    if (!reason.advice.empty()) text += "  " + reason.advice + "\n";
  }
  if (explanation.reasons.empty()) text += "The head knows of nothing that holds it up.\n";
  return text;
}

std::string explanation_json(const JobView& job, const Explanation& explanation) {
  using Json = nlohmann::ordered_json;
  Json reasons = Json::array();
  for (const Reason& reason : explanation.reasons)
    reasons.push_back({{"kind", reason.kind},
                       {"text", reason.text},
                       {"advice", reason.advice.empty() ? Json() : Json(reason.advice)}});
  return json_text({{"job", job.id},
                    {"state", job.state},
                    {"summary", explanation.summary},
                    {"reasons", std::move(reasons)}});
}

}  // namespace es::actors
