#include "actors/views/trackers/tracker.h"

#include <chrono>
#include <cstdlib>

#include "actors/views/trackers/mlflow_messages.h"
#include "proto/http/http_client.h"

namespace es::actors {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

HttpLogin login_from_environment() {
  return {environment("MLFLOW_TRACKING_TOKEN"), environment("MLFLOW_TRACKING_USERNAME"),
          environment("MLFLOW_TRACKING_PASSWORD")};
}

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class Mlflow final : public Tracker {
 public:
  Mlflow(std::string url, std::string experiment)
      : url_(std::move(url)),
        experiment_(std::move(experiment)),
        http_(url_, login_from_environment()) {}

  std::string name() const override { return "MLflow at " + url_; }

  Result<LastSteps> begin(const TrackedJob& job) override {
    const Result<std::string> experiment = find_or_create_experiment();
    if (!experiment) return experiment.error();
    auto found = ask(&mlflow_run_found, "runs/search", mlflow_search_run(*experiment, job));
    if (!found) return found.error();
    if (*found) {
      run_ = (*found)->id;
      ES_RETURN_IF_ERROR(update(""));
      return std::move((*found)->last);
    }
    const auto run = ask(&mlflow_run_created, "runs/create", mlflow_create_run(*experiment, job));
    if (!run) return run.error();
    run_ = *run;
    ES_RETURN_IF_ERROR(tell("runs/log-batch", mlflow_log_fields(run_, job)));
    return LastSteps{};
  }

  Status add(std::span<const store::Scalar> points, double unix_s) override {
    return tell("runs/log-batch", mlflow_log_points(run_, points, unix_s));
  }

  Status end(const std::string& state) override { return update(state); }

 private:
  static std::string path_of(const std::string& method) { return "/api/2.0/mlflow/" + method; }

  template <class T>
  Result<T> ask(Result<T> (*read)(const HttpAnswer&), const std::string& method,
                const std::string& json) {
    const Result<HttpAnswer> answer = http_.post(path_of(method), json);
    return answer ? read(*answer) : Result<T>(answer.error());
  }

  Status tell(const std::string& method, const std::string& json) {
    const Result<HttpAnswer> answer = http_.post(path_of(method), json);
    return answer ? mlflow_done(*answer) : answer.error();
  }

  Status update(const std::string& state) {
    return tell("runs/update", mlflow_update_run(run_, state, unix_now()));
  }

  Result<std::string> find_or_create_experiment() {
    const Result<HttpAnswer> answer = http_.get(
        path_of("experiments/get-by-name?experiment_name=" + percent_encoded(experiment_)));
    if (!answer) return answer.error();
    const auto found = mlflow_experiment_found(*answer);
    if (!found) return found.error();
    if (*found) return **found;
    return ask(&mlflow_experiment_created, "experiments/create",
               mlflow_create_experiment(experiment_));
  }

  const std::string url_, experiment_;
  HttpClient http_;
  std::string run_;  // the id that MLflow has given
};

}  // namespace

std::unique_ptr<Tracker> mlflow_tracker(std::string url, std::string experiment) {
  return std::make_unique<Mlflow>(std::move(url), std::move(experiment));
}

}  // namespace es::actors
