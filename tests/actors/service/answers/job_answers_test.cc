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

  TEST_CASE("a device computes for the share of the samples that it could have computed") {
    JobView job{.id = "a-1"};
    job.max_p = 4;
    job.samples_per_second_now = 60;
    WorkerView worker{.rank_begin = 1, .rank_end = 3, .samples_per_second = 40};
    CHECK(computing_share(job, worker) == 0.75);
    worker.samples_per_second = 20;
    CHECK(computing_share(job, worker) == 1);
    worker.samples_per_second = 0;
    CHECK_FALSE(computing_share(job, worker));
  }

  TEST_CASE("a reader with a tenant sees only when the devices of a node were held") {
    const std::map<std::string, std::vector<DevicePoint>> devices{
        {"x#0", {{.unix_ms = 1000, .held = 1, .computing = 0.5, .peak_rss_mib = 100}}}};
    CHECK(Json::parse(node_history_json("n", devices, true)) ==
          Json::parse(R"({"node": "n", "devices": [
            {"device": "x#0", "points": [[1000, 1.0, 0.5, 100.0, null]]}]})"));
    CHECK(Json::parse(node_history_json("n", devices, false))["devices"][0]["points"] ==
          Json::parse("[[1000, 1.0, null, null, null]]"));
  }

  TEST_CASE("the list has age, time left, submitter and cost of a job") {
    JobView job{.id = "a-1", .step = 10, .last_step = 30, .samples_per_second_now = 5};
    job.stages = {{.placement = "x:1", .steps = 10, .seconds = 20}};
    job.submitter = "alice";
    job.submitted_unix_ms = 1000;
    job.ended_unix_ms = 2000;
    job.price_per_hour = 2.5;
    const Json shown = Json::parse(job_list_json({job}, 1, ""))["jobs"][0];
    CHECK(shown["seconds_left"] == 40);
    CHECK(shown["submitter"] == "alice");
    CHECK(shown["ended_unix_ms"] == 2000);
    CHECK(shown["price_per_hour"] == 2.5);
    const Json unknown = Json::parse(job_list_json({JobView{.id = "b-1"}}, 1, ""))["jobs"][0];
    CHECK(unknown["seconds_left"].is_null());
    CHECK(unknown["submitter"].is_null());
  }
}
