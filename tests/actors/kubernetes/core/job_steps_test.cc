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
    const HeadJob runs = at_head("running");
    HeadJob over = at_head("cancelled");
    CHECK(next_step(deleted, &runs, "h100") == JobOrder{JobStep::kCancel});
    over.holds = 1;
    CHECK(next_step(deleted, &over, "h100") == kNothing);
    over.holds = 0;
    CHECK(next_step(deleted, &over, "h100") == JobOrder{JobStep::kRemoveFinalizer});
    CHECK(finalizer_patch(deleted, false)["metadata"]["finalizers"] == Json::array({"other"}));
    deleted["metadata"]["finalizers"] = Json::array({"other"});
    CHECK(next_step(deleted, &over, "h100") == kNothing);
  }

  TEST_CASE("devices whose answer was lost are asked for again") {
    const HeadJob known = at_head("running");
    Json object = job(R"({"devices": 2})", R"({"job": "x-1", "demand": "h100:2"})");
    CHECK(!lacks_demand(object));
    object["status"]["conditions"] = Json::parse(R"([{"type": "Scaled", "status": "False"}])");
    CHECK(lacks_demand(object));
    CHECK(next_step(object, &known, "h100", true) == JobOrder{JobStep::kScale, "h100:2"});
    object["status"]["conditions"][0]["status"] = "True";
    CHECK(!lacks_demand(object));
  }

  TEST_CASE("a job stays in the cluster that has accepted it") {
    CHECK(cluster_of(job("{}")) == kDefaultCluster);
    CHECK(cluster_of(job(R"({"cluster": "b"})")) == "b");
    CHECK(cluster_of(job(R"({"cluster": "b"})", R"({"submitted": {"cluster": "a"}})")) == "a");
  }
}
