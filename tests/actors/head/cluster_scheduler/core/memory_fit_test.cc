#include "actors/head/cluster_scheduler/core/memory_fit.h"

#include <doctest/doctest.h>

#include <vector>

namespace es::actors::cluster {
namespace {

using scheduler::RoomyDevices;
using scheduler::WorkerMemory;

// 100 bytes for what is always there and 80 of moments, without gradients.
WorkerMemory memory() {
  return {.on_cpu = {.always = 100, .moments = 80, .gradient = 0}, .on_gpu = {}, .max_p = 8};
}

JobSpec job(const std::string& state) {
  JobSpec spec;
  spec.max_p = 8;
  spec.level = DeterminismLevel::kD2;
  spec.shard.state = state;
  return spec;
}

// Devices of which each has room for 120 bytes.
std::vector<RoomyDevices> devices(std::uint32_t count) {
  return {{{"cpu-avx2"}, {.all = 120}, count}};
}

Result<JobSpec> fit(const JobSpec& spec, const std::vector<RoomyDevices>& on,
                    bool may_divide = true, bool may_grow = false) {
  return fit_into_memory(spec, memory(), may_divide, on, may_grow);
}

}  // namespace

TEST_SUITE("cluster_scheduler/memory_fit") {
  TEST_CASE("a job that fits as it is does not change") {
    const auto fitted = fit(job("auto"), {{{"cpu-avx2"}, {.all = 180}, 3}});
    REQUIRE(fitted);
    CHECK(*fitted == job("auto"));
  }

  TEST_CASE("auto divides the state where nothing else fits, with workers enough") {
    const auto fitted = fit(job("auto"), devices(8));
    REQUIRE(fitted);
    CHECK(fitted->shard.state == "on");
    CHECK(fitted->resources.min_devices == 8);
  }

  TEST_CASE("what does not fit is refused with the bytes that are missing") {
    const auto fitted = fit(job("auto"), devices(7));
    REQUIRE_FALSE(fitted);
    CHECK(fitted.error().kind == ErrorKind::kRefused);
    CHECK(fitted.error().message ==
          "memory: a worker among 7 needs at least 0.0 MiB on cpu-avx2, which has 0.0 MiB: 60 "
          "bytes are missing");
    CHECK_FALSE(fit(job("auto"), devices(8), false));
  }

  TEST_CASE("a job that asks for whole state is told that divided state fits") {
    const auto fitted = fit(job("off"), devices(8));
    REQUIRE_FALSE(fitted);
    CHECK(fitted.error().message.ends_with("; it fits with shard.state = \"auto\""));
    CHECK_FALSE(fit(job("off"), devices(7)).error().message.ends_with("\"auto\""));
  }

  TEST_CASE("a cluster that may grow, or whose devices are not known, refuses nothing") {
    const auto grows = fit(job("auto"), devices(1), true, true);
    REQUIRE(grows);
    CHECK(*grows == job("auto"));
    CHECK(fit(job("auto"), {}));
  }

  TEST_CASE("of a type with small and large devices the small ones are named") {
    const std::vector<RoomyDevices> mixed{{{"cpu-avx2"}, {.all = 200}, 2},
                                          {{"cpu-avx2"}, {.all = 150}, 1}};
    CHECK(check_room(memory(), *parse_device_set("cpu-avx2:2"), mixed).ok());
    const Status refusal = check_room(memory(), *parse_device_set("cpu-avx2:3"), mixed);
    REQUIRE_FALSE(refusal.ok());
    CHECK(refusal.error().message.ends_with(": 30 bytes are missing"));
  }

  TEST_CASE("each stage has to fit") {
    JobSpec staged = job("auto");
    staged.stages = *parse_stages("cpu-avx2:8@5,cpu-avx2:7@5");
    CHECK_FALSE(fit(staged, devices(8)));
    staged.stages = *parse_stages("cpu-avx2:8@5");
    const auto fitted = fit(staged, devices(8));
    REQUIRE(fitted);
    CHECK(fitted->shard.state == "on");
    CHECK(fitted->resources.min_devices == 1);
  }
}

}  // namespace es::actors::cluster
