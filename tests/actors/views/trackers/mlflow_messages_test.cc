// The requests to MLflow and its answers. A test of `esctl curve` uses a real server.
#include "actors/views/trackers/mlflow_messages.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "actors/views/trackers/job_curves.h"

TEST_SUITE("actors/views/trackers") {
  using namespace es;
  using namespace es::actors;
  using Json = nlohmann::json;

  const TrackedJob kJob{"cnn-1", 1700000000.25, {{"model.name", "\"cnn\""}, {"batch_size", "4"}}};

  TEST_CASE("points that are not finite are texts") {
    const std::vector<store::Scalar> points{
        {"train/loss", 7, 0.5F}, {"a", 8, std::nanf("")}, {"b", 9, -INFINITY}};
    const Json json = Json::parse(mlflow_log_points("r", points, 2.5));
    CHECK(json["run_id"] == "r");
    CHECK(json["metrics"][0] ==
          Json({{"key", "train/loss"}, {"value", 0.5}, {"timestamp", 2500}, {"step", 7}}));
    CHECK(json["metrics"][1]["value"] == "NaN");
    CHECK(json["metrics"][2]["value"] == "-Infinity");
  }

  TEST_CASE("a run is found again by the job and the time of its submission") {
    const Json search = Json::parse(mlflow_search_run("3", kJob));
    CHECK(search["experiment_ids"] == Json::array({"3"}));
    CHECK(search["filter"] == "tags.`easyscale.job` = 'cnn-1@1700000000250'");
    const Json create = Json::parse(mlflow_create_run("3", kJob));
    CHECK(create["tags"][0]["value"] == "cnn-1@1700000000250");
    CHECK(create["start_time"] == 1700000000250);
    CHECK_FALSE((*mlflow_run_found({200, "{}"})).has_value());
    const auto found = mlflow_run_found(
        {200, R"({"runs":[{"info":{"run_id":"x"},"data":{"metrics":[)"
              R"({"key":"train/loss","step":"12"},{"key":"eval/loss","step":10}]}}]})"});
    REQUIRE(found);
    REQUIRE(*found);
    CHECK((*found)->id == "x");
    CHECK((*found)->last == LastSteps{{"train/loss", 12}, {"eval/loss", 10}});
  }

  TEST_CASE("MLflow accepts 100 parameters of 500 bytes") {
    TrackedJob job = kJob;
    for (int i = 0; i < 200; ++i) job.fields.emplace_back(std::to_string(i), std::string(600, 'x'));
    const Json json = Json::parse(mlflow_log_fields("r", job));
    CHECK(json["params"].size() == 100);
    CHECK(json["params"][1] == Json({{"key", "batch_size"}, {"value", "4"}}));
    CHECK(json["params"][99]["value"].get<std::string>().size() == 500);
  }

  TEST_CASE("the end of a job is the status of its run") {
    const auto status = [](const char* state) {
      return Json::parse(mlflow_update_run("r", state, 1))["status"].get<std::string>();
    };
    CHECK(status("finished") == "FINISHED");
    CHECK(status("failed") == "FAILED");
    CHECK(status("cancelled") == "KILLED");
    CHECK(status("") == "RUNNING");
    CHECK_FALSE(Json::parse(mlflow_update_run("r", "", 1)).contains("end_time"));
  }

  TEST_CASE("errors of a server are told, and answers of another program are refused") {
    const auto text = [](const auto& result) { return result.error().message; };
    CHECK(text(mlflow_done({400, R"({"error_code":"BAD","message":"no such run"})"})) ==
          "no such run");
    CHECK(text(mlflow_done({502, "<html>"})) == "an answer with status 502");
    CHECK(text(mlflow_done({200, "<html>"})).find("MLflow server?") != std::string::npos);
    CHECK(text(mlflow_run_created({200, "{}"})).find("field run;") != std::string::npos);
    CHECK(text(mlflow_run_created({200, R"({"run":{"info":{"run_id":7}}})"})) ==
          "the field run.info.run_id of the answer is no text");
    const char* const gone = R"({"experiment":{"experiment_id":"1","lifecycle_stage":"deleted"}})";
    CHECK(text(mlflow_experiment_found({200, gone})).find("was deleted") != std::string::npos);
    CHECK_FALSE((*mlflow_experiment_found({404, "{}"})).has_value());
  }

  TEST_CASE("only points that a tracker lacks are given to it") {
    const std::vector<store::LedgerLine> lines{{1, {1.F, 3.F}, {}}, {2, {}, {}}, {3, {4.F}, {}}};
    const std::vector<EvaluationView> evaluations{{2, 8, {{"loss", 0.5}, {"accuracy", 0.25}}}};
    const auto all = points_after({}, lines, evaluations);
    REQUIRE(all.size() == 4);
    CHECK(all[0].tag == "train/loss");
    CHECK(all[0].value == 2.F);
    CHECK(all[3].tag == "eval/accuracy");
    const auto rest = points_after({{"train/loss", 1}, {"eval/loss", 2}}, lines, evaluations);
    REQUIRE(rest.size() == 2);
    CHECK(rest[0].step == 3);
    CHECK(rest[1].tag == "eval/accuracy");
  }

  TEST_CASE("the URL of a service has no user and a known scheme") {
    CHECK(check_service_url("--mlflow", "http://127.0.0.1:5000").ok());
    CHECK(check_service_url("--mlflow", "https://mlflow.example/a").ok());
    for (const char* bad : {"", "mlflow", "ftp://x", "http://", "http:///a", "http://u:p@host/"}) {
      CAPTURE(bad);
      CHECK(check_service_url("--mlflow", bad).error().kind == ErrorKind::kUsage);
    }
    CHECK(percent_encoded("a b/ü") == "a%20b%2F%C3%BC");
  }
}
