// The JSON of the HTTP service that esctl does not have.
#include "actors/service/answers/job_answers.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

TEST_SUITE("http/job_answers") {
  using namespace es::actors;
  using namespace es::actors::http;
  using Json = nlohmann::json;

  TEST_CASE("the timeline of a job has spans, progress and pauses by cause") {
    JobView job{.id = "a-1"};
    job.pauses = {{"link", 1, 0.25}};
    job.shared_memory_bytes = 7;
    job.checkpoints_written = 2;
    const TimelineView timeline{
        .spans = {{.begin_seconds = 0, .seconds = 2, .steps = 4, .devices = {"n/x#0"}},
                  {.begin_seconds = 2.25,
                   .seconds = 1,
                   .pause_seconds = 0.25,
                   .cause = "link",
                   .first_step = 4,
                   .steps = 1,
                   .devices = {"n/x#0", "n/x#1"}}},
        .progress = {{0.5, 1}, {3.25, 5}}};
    const Json json = Json::parse(timeline_json(job, timeline));
    CHECK(json["spans"][0]["cause"].is_null());
    CHECK(json["spans"][1]["cause"] == "link");
    CHECK(json["spans"][1]["devices"] == Json::parse(R"(["n/x#0", "n/x#1"])"));
    CHECK(json["progress"] == Json::parse("[[0.5, 1], [3.25, 5]]"));
    CHECK(json["pauses"] == Json::parse(R"([{"cause": "link", "count": 1, "seconds": 0.25}])"));
    CHECK(json["recoveries"] == 1);
    CHECK(json["exchanged_bytes"]["shared_memory"] == 7);
    CHECK(json["checkpoints"]["written"] == 2);
  }

  TEST_CASE("devices that are slow are listed with their jobs") {
    JobView job{.id = "a-1"};
    job.workers = {{.node = "n", .device_type = "x", .device_index = 1, .slowness = 1},
                   {.node = "n", .device_type = "x", .device_index = 2, .slowness = 2.5}};
    const Json json = Json::parse(cluster_json({{1000, 2, 4}}, {job}));
    CHECK(json["utilisation"] == Json::parse("[[1000, 2.0, 4.0]]"));
    REQUIRE(json["stragglers"].size() == 1);
    CHECK(json["stragglers"][0]["device"] == "x#2");
    CHECK(json["stragglers"][0]["slowness"] == 2.5);
  }
}
