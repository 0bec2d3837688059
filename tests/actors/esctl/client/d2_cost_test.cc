#include "actors/esctl/client/d2_cost.h"

#include <doctest/doctest.h>

#include <sstream>

#include "actors/base/job_file/job_file.h"
#include "tests/actors/esctl/session.h"

namespace es::actors::esctl {
namespace {

const StartPoint kFromSeed{.checkpoint = {}, .version = 0};

JobSpec auto_job(double accepted_cost) {
  JobSpec spec = parse_job(test::job_toml(), "test").value();
  spec.level = DeterminismLevel::kAuto;
  spec.auto_cost = accepted_cost;
  return spec;
}

struct Resolved {
  Status status;
  DeterminismLevel level;
  std::string said;
};

Resolved resolve(JobSpec spec, const StartPoint& start = kFromSeed) {
  std::ostringstream out, err;
  Console console{out, err, [] { return 0; }};
  const Status status = resolve_auto_level(spec, start, console);
  CHECK(out.str().empty());
  return {status, spec.level, err.str()};
}

}  // namespace

TEST_SUITE("actors/esctl/d2_cost") {
  // A measured cost is above -100 % and practically never 10^11 %, so these limits decide without a
  // measurement of real time.
  TEST_CASE("level auto becomes D2 when its cost is accepted, else D1, and a note says which") {
    const std::string widest = device_type(supported_cpu_classes().back()).name;
    const Resolved dear = resolve(auto_job(-1.0));
    REQUIRE(dear.status.ok());
    CHECK(dear.level == DeterminismLevel::kD1);
    CHECK(dear.said.starts_with("level auto is D1: D2 costs "));
    CHECK(dear.said.ends_with(" % of a step on " + widest + ", accepted are -100.0 %\n"));
    const Resolved cheap = resolve(auto_job(1e9));
    REQUIRE(cheap.status.ok());
    CHECK(cheap.level == DeterminismLevel::kD2);
    CHECK(cheap.said.starts_with("level auto is D2: D2 costs "));
  }

  TEST_CASE("a job that continues from a checkpoint keeps its level, whatever D2 costs now") {
    for (const auto level : {DeterminismLevel::kD1, DeterminismLevel::kD2}) {
      const Resolved resolved =
          resolve(auto_job(-1.0), {.checkpoint = "/c", .version = 3, .level = level});
      REQUIRE(resolved.status.ok());
      CHECK(resolved.level == level);
      CHECK(resolved.said == std::string("level auto is ") + level_name(level) + ", as in /c\n");
    }
  }

  TEST_CASE("a level that the job names stays, without a measurement or a note") {
    JobSpec spec = auto_job(-1.0);
    spec.data.path = "/nonexistent";  // A measurement would fail.
    spec.data.kind = "idx";
    for (const auto level : {DeterminismLevel::kD0, DeterminismLevel::kD1, DeterminismLevel::kD2}) {
      spec.level = level;
      const Resolved resolved =
          resolve(spec, {.checkpoint = "/c", .version = 3, .level = DeterminismLevel::kD2});
      REQUIRE(resolved.status.ok());
      CHECK(resolved.level == level);
      CHECK(resolved.said.empty());
    }
    spec.level = DeterminismLevel::kAuto;
    CHECK_FALSE(resolve(spec).status.ok());
  }

  TEST_CASE("the cost is measured on the widest kernel class") {
    const auto cost = measure_d2_cost(auto_job(0.1));
    REQUIRE(cost.ok());
    CHECK(cost->device_type == device_type(supported_cpu_classes().back()).name);
    CHECK((cost->verdict.d1_time.count() > 0.0) == !cost->verdict.vendor_ops.empty());
  }
}

}  // namespace es::actors::esctl
