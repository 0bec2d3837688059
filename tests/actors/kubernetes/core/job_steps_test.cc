#include "actors/kubernetes/core/job_steps.h"

#include <doctest/doctest.h>

using namespace es::actors::kubernetes;

namespace {

Json job(const char* spec, const char* status = "{}") {
  return {{"metadata",
           {{"name", "x"}, {"generation", 3}, {"finalizers", Json::array({"other", kFinalizer})}}},
          {"spec", Json::parse(spec)},
          {"status", Json::parse(status)}};
}

HeadJob at_head(const char* state) {
  return {
      .id = "x-1", .state = state, .step = 4, .last_step = 9, .placement = "h100:2", .devices = 2};
}

constexpr const char* kSubmitted = R"({"job": "x-1"})";
const JobOrder kNothing{};

}  // namespace

TEST_SUITE("actors/kubernetes/core/job_steps") {
  TEST_CASE("a job gets its finalizer before it is submitted, and is submitted once") {
    Json fresh = job("{}");
    fresh["metadata"].erase("finalizers");
    CHECK(next_step(fresh, nullptr, "h100") == JobOrder{JobStep::kAddFinalizer});
    CHECK(next_step(job("{}"), nullptr, "h100") == JobOrder{JobStep::kSubmit});
    const HeadJob known = at_head("running");
    CHECK(next_step(job("{}", kSubmitted), &known, "h100") == kNothing);
    // A head that has lost it is not given it again, because its steps would be lost silently.
    CHECK(next_step(job("{}", kSubmitted), nullptr, "h100") == kNothing);
  }

  TEST_CASE("devices are of the first type that the job names, or else of the first group") {
    const HeadJob known = at_head("running");
    CHECK(next_step(job(R"({"devices": 2})", kSubmitted), &known, "h100") ==
          JobOrder{JobStep::kScale, "h100:2"});
    CHECK(next_step(
              job(R"({"devices": 2, "resources": {"deviceTypes": ["a100", "h100"]}})", kSubmitted),
              &known, "h100") == JobOrder{JobStep::kScale, "a100:2"});
    CHECK(next_step(job(R"({"devices": 2})", R"({"job": "x-1", "demand": "h100:2"})"), &known,
                    "h100") == kNothing);
    // Without a number the scheduler chooses again.
    CHECK(next_step(job("{}", R"({"job": "x-1", "demand": "h100:2"})"), &known, "h100") ==
          JobOrder{JobStep::kScale, "auto"});
  }

  TEST_CASE("suspend and zero devices pause; a job is scaled before it is resumed") {
    const HeadJob runs = at_head("running"), paused = at_head("paused"), over = at_head("finished");
    for (const char* spec : {R"({"suspend": true})", R"({"devices": 0})"}) {
      CHECK(next_step(job(spec, kSubmitted), &runs, "h100") == JobOrder{JobStep::kPause});
      CHECK(next_step(job(spec, kSubmitted), &paused, "h100") == kNothing);
      CHECK(next_step(job(spec, kSubmitted), &over, "h100") == kNothing);
    }
    CHECK(next_step(job(R"({"devices": 2})", kSubmitted), &paused, "h100") ==
          JobOrder{JobStep::kScale, "h100:2"});
    CHECK(next_step(job("{}", kSubmitted), &paused, "h100") == JobOrder{JobStep::kResume});
  }

  TEST_CASE("a deleted job is cancelled first, and its finalizer goes when it is over") {
    Json deleted = job("{}", kSubmitted);
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    const HeadJob runs = at_head("running"), over = at_head("cancelled");
    CHECK(next_step(deleted, &runs, "h100") == JobOrder{JobStep::kCancel});
    CHECK(next_step(deleted, &over, "h100") == JobOrder{JobStep::kRemoveFinalizer});
    CHECK(finalizer_patch(deleted, false)["metadata"]["finalizers"] == Json::array({"other"}));
    deleted["metadata"]["finalizers"] = Json::array({"other"});
    CHECK(next_step(deleted, &over, "h100") == kNothing);
  }

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
}
