// Metrics as OTLP. That the real decoder accepts them is tested by tests/e2e/http_test.py.
#include "actors/service/answers/otlp.h"

#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>

TEST_SUITE("http/otlp") {
  using namespace es::actors;
  using namespace es::actors::http;
  using Json = nlohmann::json;

  Json metric_of(const Json& all, const std::string& name) {
    for (const Json& metric : all["resourceMetrics"][0]["scopeMetrics"][0]["metrics"])
      if (metric["name"] == name) return metric;
    FAIL("no metric " << name);
    return {};
  }

  TEST_CASE("counters, gauges and histograms have the forms of OTLP") {
    Snapshot snapshot;
    JobView job{.id = "a-1", .state = "running", .step = 7};
    job.tenant = "vision";
    for (const double seconds : {0.0005, 0.0015, 0.002, 1000.0}) job.step_times.add(seconds);
    snapshot.jobs = {job};  // its loss is NaN
    const Json all = Json::parse(
        otlp_json(metrics_of(snapshot), {.instance = "n1", .start_unix_s = 5, .unix_ms = 7'500}));
    CHECK(all["resourceMetrics"][0]["resource"]["attributes"] ==
          Json::parse(R"([{"key": "service.name", "value": {"stringValue": "easyscale"}},
                          {"key": "service.instance.id", "value": {"stringValue": "n1"}}])"));
    const Json steps = metric_of(all, "easyscale_job_steps_total")["sum"];
    CHECK(steps["isMonotonic"] == true);
    CHECK(steps["aggregationTemporality"] == 2);
    CHECK(steps["dataPoints"][0]["asDouble"] == 7);
    CHECK(steps["dataPoints"][0]["startTimeUnixNano"] == "5000000000");
    CHECK(steps["dataPoints"][0]["timeUnixNano"] == "7500000000");
    CHECK(steps["dataPoints"][0]["attributes"][1]["value"]["stringValue"] == "vision");
    const Json loss = metric_of(all, "easyscale_job_loss")["gauge"]["dataPoints"][0];
    CHECK(loss["asDouble"] == "NaN");
    CHECK_FALSE(loss.contains("startTimeUnixNano"));
    const Json times = metric_of(all, "easyscale_job_step_duration_seconds");
    CHECK(times["unit"] == "s");
    const Json point = times["histogram"]["dataPoints"][0];
    CHECK(point["count"] == "4");
    CHECK(point["explicitBounds"].size() == kStepTimeBounds.size());
    REQUIRE(point["bucketCounts"].size() == kStepTimeBounds.size() + 1);
    CHECK(point["bucketCounts"][0] == "1");
    CHECK(point["bucketCounts"][1] == "2");
    CHECK(point["bucketCounts"][kStepTimeBounds.size()] == "1");
    CHECK(metric_of(all, "process_resident_memory_bytes")["unit"] == "By");
    CHECK(metric_of(all, "easyscale_job_data_wait_ratio")["unit"] == "1");
  }
}
