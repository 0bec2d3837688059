// The two outputs of a trace: the file for Perfetto, and the profile.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "actors/base/tracing/core/chrome_json.h"
#include "actors/base/tracing/core/profile.h"

TEST_SUITE("tracing/outputs") {
  using namespace es;
  using namespace es::actors;
  using namespace es::actors::tracing;
  using Json = nlohmann::json;

  Span span(SpanKind kind, std::uint16_t lane, std::int64_t begin, std::int64_t duration,
            std::uint32_t number = 0, std::uint64_t peer = 0) {
    return {.kind = kind,
            .lane = lane,
            .number = number,
            .step = 4,
            .begin = Instant(begin),
            .duration = Instant(duration),
            .peer = peer,
            .bytes = 64};
  }

  // Two workers; the clock of the second is 1,000,000 ns ahead.
  Trace example() {
    Trace trace{.job = "a \"job\"\n", .first = 4, .end = 5, .zero = Instant(1000)};
    trace.processes.push_back({.clock = {.same_clock = true},
                               .spans = {span(SpanKind::kLedger, lane::kLedger, 9000, 50)}});
    ProcessTrace one{.worker = {1},
                     .device = {"n1", {"cpu-avx2"}, 0},
                     .clock = {.same_clock = true},
                     .about = {.pid = 42,
                               .operators = {{"conv1", "conv2d", false, 2e6, 100},
                                             {"conv1", "conv2d weight gradient", true, 2e6, 100}},
                               .memory = {{"parameters", "job", 400}},
                               .peak_gflops = 4}};
    one.spans = {span(SpanKind::kStep, lane::kSteps, 2000, 6000),
                 span(SpanKind::kSlice, lane::kDevice, 2100, 2000, 3),
                 span(SpanKind::kOperator, lane::kDevice, 2100, 1000, 0),
                 span(SpanKind::kOperator, lane::kDevice, 3100, 500, 1),
                 span(SpanKind::kUpdate, lane::kDevice, 7000, 900),
                 span(SpanKind::kSendPart, lane::kExchanges, 4200, 10, 0, 2),
                 span(SpanKind::kLoadBatch, lane::kFirstLoader, 2500, 700, 3)};
    ProcessTrace two{.worker = {2},
                     .device = {"n2", {"cpu-scalar"}, 0},
                     .clock = {.ahead = Instant(1'000'000), .error = Instant(1500)},
                     .missing = "it was ended by signal 9 (Killed)",
                     .dropped = 7};
    two.spans = {span(SpanKind::kTakePart, lane::kExchanges, 1'005'000, 20, 0, 1)};
    trace.processes.push_back(one);
    trace.processes.push_back(two);
    return trace;
  }

  TEST_CASE("the file is JSON with one process, thread and event for each") {
    const Json json = Json::parse(chrome_json(example()));
    CHECK(json.at("displayTimeUnit") == "ms");
    const Json& other = json.at("otherData");
    CHECK(other.at("job") == "a \"job\"\n");
    CHECK(other.at("first_step") == 4);
    CHECK(other.at("note").is_null());
    REQUIRE(other.at("processes").size() == 3);
    CHECK(other.at("processes")[1].at("system_pid") == 42);
    CHECK(other.at("processes")[2].at("missing") == "it was ended by signal 9 (Killed)");
    CHECK(other.at("processes")[2].at("dropped_spans") == 7);
    CHECK(other.at("processes")[2].at("clock_error_us") == 1.5);
    std::map<std::string, int> phases;
    std::map<std::string, Json> by_name;
    for (const Json& event : json.at("traceEvents")) {
      const std::string phase = event.at("ph");
      ++phases[phase];
      if (phase == "X") by_name[event.at("name")] = event;
    }
    CHECK(phases["X"] == 9);
    CHECK(phases["s"] == 1);
    CHECK(phases["f"] == 1);
    CHECK(phases["i"] == 1);
    const Json& slice = by_name.at("EST 3");
    CHECK(slice.at("ts") == 1.1);  // microseconds after the request
    CHECK(slice.at("dur") == 2.0);
    CHECK(slice.at("args").at("step") == 4);
    CHECK(by_name.at("conv2d conv1").at("args").at("pass") == "forward");
    CHECK(by_name.at("conv2d weight gradient conv1").at("args").at("flops") == 2e6);
    // The clock of the second worker is corrected.
    CHECK(by_name.at("bucket 0 of worker 1").at("ts") == 4.0);
    CHECK(by_name.count("mini-batch of EST 3, step 4") == 1);
    CHECK(by_name.count("version 5") == 1);
  }

  TEST_CASE("an arrow goes from the sending of a gradient to its arrival") {
    const Json json = Json::parse(chrome_json(example()));
    Json from, to;
    for (const Json& event : json.at("traceEvents")) {
      if (event.at("ph") == "s") from = event;
      if (event.at("ph") == "f") to = event;
    }
    CHECK(from.at("id") == to.at("id"));
    CHECK(from.at("pid") == 2);
    CHECK(to.at("pid") == 3);
    CHECK(from.at("ts").get<double>() <= to.at("ts").get<double>());
  }

  TEST_CASE("a trace without spans is a file too") {
    Trace trace{.job = "j", .note = "the job is finished"};
    const Json json = Json::parse(chrome_json(trace));
    CHECK(json.at("traceEvents").empty());
    CHECK(json.at("otherData").at("note") == "the job is finished");
  }

  TEST_CASE("a profile sums spans by device type and kind") {
    const Profile profile = profile_of(example());
    REQUIRE(profile.devices.size() == 2);
    const DeviceTime& avx2 = profile.devices[0];
    CHECK(avx2.device_type == "cpu-avx2");
    CHECK(avx2.steps == 1);
    CHECK(avx2.slices == 1);
    CHECK(avx2.slice_seconds == doctest::Approx(2e-6));
    CHECK(avx2.operator_seconds == doctest::Approx(1.5e-6));
    CHECK(avx2.peak_gflops == doctest::Approx(4));
    REQUIRE(avx2.kinds.size() == 2);
    CHECK(avx2.kinds[0].name == "conv2d");
    CHECK(!avx2.kinds[0].backward);
    CHECK(avx2.kinds[0].seconds == doctest::Approx(1e-6));
    CHECK(avx2.kinds[1].backward);
    CHECK(avx2.operators[1].name == "conv2d weight gradient conv1");
    REQUIRE(profile.memory.size() == 1);
    CHECK(profile.memory[0].parts[0].bytes == 400);
    REQUIRE(profile.missing.size() == 1);
    CHECK(profile.missing[0] == "worker 2 on n2/cpu-scalar:0: it was ended by signal 9 (Killed)");
    CHECK(profile.devices[1].dropped == 7);
  }
}
