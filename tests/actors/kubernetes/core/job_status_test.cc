#include "actors/kubernetes/core/job_status.h"

#include <doctest/doctest.h>

#include "actors/kubernetes/core/job_changes.h"
#include "actors/kubernetes/core/job_steps.h"

using namespace es::actors::kubernetes;

namespace {

Json job(const char* spec, const char* status = "{}") {
  return {
      {"metadata", {{"name", "x"}, {"generation", 3}, {"finalizers", Json::array({kFinalizer})}}},
      {"spec", Json::parse(spec)},
      {"status", Json::parse(status)}};
}

HeadJob at_head(const char* state) {
  return {
      .id = "x-1", .state = state, .step = 4, .last_step = 9, .placement = "h100:2", .devices = 2};
}

Json condition(const Json& status, const char* type) {
  for (const Json& one : status["conditions"])
    if (one["type"] == type) return one;
  return {};
}

constexpr const char* kSubmitted = R"({"job": "x-1"})";

}  // namespace

TEST_SUITE("actors/kubernetes/core/job_status") {
  TEST_CASE("a job that has timed out is over") {
    const HeadJob over = at_head("timed-out");
    Json object = job("{}", kSubmitted);
    const Json status = job_status(object, &over, true, {.job = "x-1"}, "t1");
    CHECK(status["phase"] == "TimedOut");
    CHECK(status["conditions"].back()["type"] == "Failed");
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    CHECK(next_step(object, &over, "h100") == JobOrder{JobStep::kRemoveFinalizer});
  }

  TEST_CASE("a condition keeps its time while its status stays") {
    const HeadJob runs = at_head("running");
    Json object = job("{}", kSubmitted);
    object["status"] = job_status(object, &runs, true, {.job = "x-1"}, "t1");
    CHECK(object["status"]["phase"] == "Running");
    CHECK(object["status"]["devices"] == 2);
    CHECK(object["status"]["observedGeneration"] == 3);
    CHECK(job_status(object, &runs, true, {.job = "x-1"}, "t2") == object["status"]);
    const HeadJob paused = at_head("paused");
    const Json later = job_status(object, &paused, true, {.job = "x-1"}, "t2");
    CHECK(later["conditions"][0]["lastTransitionTime"] == "t1");  // Accepted
    CHECK(later["conditions"][1]["lastTransitionTime"] == "t2");  // Training
  }

  TEST_CASE("a refusal is a condition, and without a head its last answer stands") {
    const Json refused = job_status(job("{}"), nullptr, true, {.refusal = "no such model"}, "t1");
    CHECK(refused["phase"] == "Refused");
    CHECK(refused["conditions"][0]["status"] == "False");
    CHECK(refused["conditions"][0]["message"] == "no such model");
    const HeadJob runs = at_head("running");
    Json object = job("{}", kSubmitted);
    object["status"] = job_status(object, &runs, true, {.job = "x-1"}, "t1");
    const Json away = job_status(object, nullptr, false, {.job = "x-1"}, "t2");
    CHECK(away["phase"] == "Running");
    CHECK(away["step"] == 4);
    CHECK(away["conditions"][0]["status"] == "Unknown");
  }

  TEST_CASE("what the head has answered to the demand is the condition Scaled") {
    const HeadJob runs = at_head("running");
    const Json object = job(R"({"devices": 2})", kSubmitted);
    JobReport report{.job = "x-1"};
    CHECK(condition(job_status(object, &runs, true, report, "t1"), "Scaled").is_null());
    report.demand = "h100:2";
    report.scaled = JobReport::Scaled::kAsked;
    Json asked = object;
    asked["status"] = job_status(object, &runs, true, report, "t1");
    CHECK(condition(asked["status"], "Scaled")["reason"] == "Asked");
    // Another controller knows only what the object says.
    CHECK(condition(job_status(asked, &runs, true, {}, "t2"), "Scaled") ==
          condition(asked["status"], "Scaled"));
    report.scaled = JobReport::Scaled::kRefused;
    report.scale_refusal = "no";
    CHECK(condition(job_status(object, &runs, true, report, "t1"), "Scaled")["message"] == "no");
    report.scaled = JobReport::Scaled::kDone;
    CHECK(condition(job_status(object, &runs, true, report, "t1"), "Scaled")["status"] == "True");
  }

  TEST_CASE("each changed field is named with its old and its new value") {
    const HeadJob runs = at_head("running");
    Json object = job(
        R"({"maxP": 4, "devices": 1, "model": {"name": "resnet18"}, "clip": [1, 2], "seed": 5})",
        kSubmitted);
    const JobReport report{.job = "x-1", .submitted = frozen_spec(object)};
    CHECK(!report.submitted.contains("devices"));
    object["spec"]["devices"] = 3;
    object["spec"]["suspend"] = true;
    CHECK(changes_since(report.submitted, object).empty());
    CHECK(condition(job_status(object, &runs, true, report, "t1"), "Unchanged")["status"] ==
          "True");
    object["spec"]["maxP"] = 8;
    object["spec"]["model"]["name"] = "vgg11";
    object["spec"]["clip"] = Json::array({1, 3});
    object["spec"].erase("seed");
    object["spec"]["steps"] = 7;
    CHECK(changes_since(report.submitted, object) ==
          std::vector<std::string>{
              "spec.maxP was 4 and is 8", "spec.model.name was \"resnet18\" and is \"vgg11\"",
              "spec.clip was [1,2] and is [1,3]", "spec.seed was 5 and is absent",
              "spec.steps was absent and is 7"});
    const Json changed = condition(job_status(object, &runs, true, report, "t1"), "Unchanged");
    CHECK(changed["status"] == "False");
    CHECK(changed["message"].get<std::string>().starts_with("spec.maxP was 4 and is 8, "));
    // It is named while no head answers, too.
    CHECK(condition(job_status(object, nullptr, false, report, "t1"), "Unchanged") == changed);
  }
}
