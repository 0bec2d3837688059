#pragma once
// MLflow: a run of an experiment for each job, by the REST API of a tracking server.
#include <memory>
#include <string>

#include "actors/views/trackers/tracker.h"

namespace es::actors {

// The run has the job's id as its name, the fields of the job file as parameters, and the state of
// the job as its status. A run that an earlier call has begun is continued. The variables that
// MLflow's own clients read say who writes: MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and
// MLFLOW_TRACKING_PASSWORD.
// REQUIRES: check_service_url(url). Errors: the server does not answer, or refuses.
std::unique_ptr<Tracker> mlflow_tracker(std::string url, std::string experiment);

}  // namespace es::actors
