#pragma once
// The requests to MLflow's REST API, version 2.0, and its answers, as JSON. Pure functions. Their
// fields are described at https://mlflow.org/docs/latest/rest-api.html.
#include <optional>
#include <span>
#include <string>

#include "actors/views/trackers/tracker.h"
#include "proto/http/http_client.h"

namespace es::actors {

struct MlflowRun {
  std::string id;
  LastSteps last;
};

// The tag of a run that names its job: the id alone is not unique among heads.
std::string mlflow_job_key(const TrackedJob& job);

std::string mlflow_create_experiment(const std::string& name);
std::string mlflow_search_run(const std::string& experiment, const TrackedJob& job);
std::string mlflow_create_run(const std::string& experiment, const TrackedJob& job);
// At most 100 fields of the job file, each of at most 500 bytes: MLflow accepts no more.
std::string mlflow_log_fields(const std::string& run, const TrackedJob& job);
std::string mlflow_log_points(const std::string& run, std::span<const store::Scalar> points,
                              double unix_s);
// `state` is that of a job, or empty for a job that continues.
std::string mlflow_update_run(const std::string& run, const std::string& state, double unix_s);

// Errors of all answers: failure (what MLflow reports, or an answer that it does not give).
Result<std::string> mlflow_experiment_created(const HttpAnswer& answer);
// No value if there is no experiment of the name. An experiment that was deleted is an error.
Result<std::optional<std::string>> mlflow_experiment_found(const HttpAnswer& answer);
Result<std::optional<MlflowRun>> mlflow_run_found(const HttpAnswer& answer);
Result<std::string> mlflow_run_created(const HttpAnswer& answer);
Status mlflow_done(const HttpAnswer& answer);

}  // namespace es::actors
