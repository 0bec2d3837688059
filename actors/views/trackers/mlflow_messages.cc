#include "actors/views/trackers/mlflow_messages.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/views/json_text.h"

namespace es::actors {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFieldsMax = 100, kFieldBytesMax = 500;
constexpr const char* kJobTag = "easyscale.job";

std::string one_line(const Json& json) {
  return json_text(json, -1);
}

std::int64_t milliseconds(double unix_s) {
  return std::llround(unix_s * 1e3);
}

// JSON has no numbers for these; MLflow reads them as texts, as Protocol Buffers define it.
Json number(float value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return static_cast<double>(value);
}

const char* status_of(const std::string& state) {
  if (state.empty()) return "RUNNING";
  if (state == "finished") return "FINISHED";
  return state == "cancelled" || state == "timed-out" ? "KILLED" : "FAILED";
}

std::string message_of(const HttpAnswer& answer) {
  const Json json = Json::parse(answer.body, nullptr, false);
  if (json.is_object() && json.value("message", Json()).is_string())
    return json["message"].get<std::string>();
  return "an answer with status " + std::to_string(answer.status);
}

// The answer as JSON. Errors: what MLflow reports.
Result<Json> json_of(const HttpAnswer& answer) {
  if (answer.status != 200) return failure(message_of(answer));
  Json json = Json::parse(answer.body, nullptr, false);
  if (!json.is_object()) return failure("the answer is no JSON object; is this an MLflow server?");
  return json;
}

// The text at a path of names. Errors: failure (there is none).
Result<std::string> text_at(const Json& json, std::initializer_list<const char*> path) {
  const Json* at = &json;
  std::string names;
  for (const char* name : path) {
    names += (names.empty() ? "" : ".") + std::string(name);
    if (!at->is_object() || !at->contains(name))
      return failure("the answer has no field " + names + "; is this an MLflow server?");
    at = &(*at)[name];
  }
  if (!at->is_string()) return failure("the field " + names + " of the answer is no text");
  return at->get<std::string>();
}

// A step is a number or, as Protocol Buffers write 64 bits, a text.
std::uint64_t step_of(const Json& metric) {
  const Json step = metric.value("step", Json());
  if (step.is_number_unsigned()) return step.get<std::uint64_t>();
  if (!step.is_string()) return 0;
  return std::strtoull(step.get<std::string>().c_str(), nullptr, 10);
}

LastSteps steps_of(const Json& run) {
  LastSteps last;
  const Json data = run.value("data", Json::object());
  if (!data.is_object() || !data.contains("metrics")) return last;
  for (const Json& metric : data["metrics"])
    if (metric.is_object() && metric.value("key", Json()).is_string())
      last[metric["key"].get<std::string>()] = step_of(metric);
  return last;
}

}  // namespace

std::string mlflow_job_key(const TrackedJob& job) {
  return job.id + "@" + std::to_string(milliseconds(job.submitted_unix_s));
}

std::string mlflow_create_experiment(const std::string& name) {
  return one_line({{"name", name}});
}

std::string mlflow_search_run(const std::string& experiment, const TrackedJob& job) {
  return one_line(
      {{"experiment_ids", {experiment}},
       {"filter", std::string("tags.`") + kJobTag + "` = '" + mlflow_job_key(job) + "'"},
       {"max_results", 1}});
}

std::string mlflow_create_run(const std::string& experiment, const TrackedJob& job) {
  const Json tag = {{"key", kJobTag}, {"value", mlflow_job_key(job)}};
  return one_line({{"experiment_id", experiment},
                   {"run_name", job.id},
                   {"start_time", milliseconds(job.submitted_unix_s)},
                   {"tags", Json::array({tag})}});
}

std::string mlflow_log_fields(const std::string& run, const TrackedJob& job) {
  Json fields = Json::array();
  for (std::size_t i = 0; i < std::min(job.fields.size(), kFieldsMax); ++i)
    fields.push_back(
        {{"key", job.fields[i].first}, {"value", job.fields[i].second.substr(0, kFieldBytesMax)}});
  return one_line({{"run_id", run}, {"params", fields}});
}

std::string mlflow_log_points(const std::string& run, std::span<const store::Scalar> points,
                              double unix_s) {
  Json metrics = Json::array();
  for (const store::Scalar& point : points)
    metrics.push_back({{"key", point.tag},
                       {"value", number(point.value)},
                       {"timestamp", milliseconds(unix_s)},
                       {"step", point.step}});
  return one_line({{"run_id", run}, {"metrics", metrics}});
}

std::string mlflow_update_run(const std::string& run, const std::string& state, double unix_s) {
  Json update = {{"run_id", run}, {"status", status_of(state)}};
  if (!state.empty()) update["end_time"] = milliseconds(unix_s);
  return one_line(update);
}

Result<std::string> mlflow_experiment_created(const HttpAnswer& answer) {
  const Result<Json> json = json_of(answer);
  if (!json) return json.error();
  return text_at(*json, {"experiment_id"});
}

Result<std::optional<std::string>> mlflow_experiment_found(const HttpAnswer& answer) {
  if (answer.status == 404) return std::optional<std::string>();
  const Result<Json> json = json_of(answer);
  if (!json) return json.error();
  const Result<std::string> stage = text_at(*json, {"experiment", "lifecycle_stage"});
  if (stage && *stage == "deleted")
    return failure("the experiment was deleted; restore it or choose another one");
  const Result<std::string> id = text_at(*json, {"experiment", "experiment_id"});
  if (!id) return id.error();
  return std::optional(*id);
}

Result<std::optional<MlflowRun>> mlflow_run_found(const HttpAnswer& answer) {
  const Result<Json> json = json_of(answer);
  if (!json) return json.error();
  const Json runs = json->value("runs", Json::array());
  if (!runs.is_array() || runs.empty()) return std::optional<MlflowRun>();
  const Result<std::string> id = text_at(runs[0], {"info", "run_id"});
  if (!id) return id.error();
  return std::optional(MlflowRun{*id, steps_of(runs[0])});
}

Result<std::string> mlflow_run_created(const HttpAnswer& answer) {
  const Result<Json> json = json_of(answer);
  if (!json) return json.error();
  return text_at(*json, {"run", "info", "run_id"});
}

Status mlflow_done(const HttpAnswer& answer) {
  const Result<Json> json = json_of(answer);
  return json ? Status() : json.error();
}

}  // namespace es::actors
