#include "actors/head/cluster_scheduler/core/job_fit.h"

#include <doctest/doctest.h>

namespace es::actors::cluster {
namespace {

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

TEST_SUITE("cluster_scheduler/job_fit") {
  TEST_CASE("a minimum fits if that many devices exist, of whatever type") {
    JobSpec spec;
    spec.resources.min_devices = 3;
    CHECK(check_fits(spec, {}, devices("a:1+b:2")).ok());
    const Status refusal = check_fits(spec, {}, devices("a:1+b:1"));
    REQUIRE_FALSE(refusal.ok());
    CHECK(refusal.error().kind == ErrorKind::kRefused);
    CHECK(refusal.error().message ==
          "resources.min_devices = 3: the cluster has " + devices("a:1+b:1").text());
  }

  TEST_CASE("every stage has to fit, and then the minimum does not count") {
    JobSpec spec;
    spec.resources.min_devices = 100;
    spec.stages = {{.devices = devices("a:1")}, {.devices = devices("b:2")}};
    CHECK(check_fits(spec, {}, devices("a:1+b:2")).ok());
    const Status refusal = check_fits(spec, {}, devices("a:9+b:1"));
    REQUIRE_FALSE(refusal.ok());
    CHECK(refusal.error().message.starts_with("stages: needs b:2"));
  }

  TEST_CASE("while no device is known only the queue is checked") {
    JobSpec spec;
    spec.resources.min_devices = 3;
    CHECK(check_fits(spec, {}, {}).ok());
    const Limits limits{.queues = {{.name = "q", .guarantee = devices("a:1")}}};
    spec.resources.queue = "other";
    CHECK_FALSE(check_fits(spec, limits, {}).ok());
    spec.resources.queue = "q";
    CHECK(check_fits(spec, limits, {}).ok());
  }

  TEST_CASE("in a cluster that may grow only the queue is checked") {
    JobSpec spec;
    spec.resources.min_devices = 3;
    const Limits limits{.queues = {{.name = "q", .guarantee = devices("a:1")}}, .may_grow = true};
    CHECK(check_fits(spec, limits, devices("a:1")).ok());
    spec.stages = {{.devices = devices("b:2")}};
    CHECK(check_fits(spec, limits, devices("a:1")).ok());
    spec.resources.queue = "other";
    CHECK_FALSE(check_fits(spec, limits, devices("a:1")).ok());
  }
}

}  // namespace
}  // namespace es::actors::cluster
