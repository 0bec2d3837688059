#include <doctest/doctest.h>

#include "scheduler/policy/greedy/missing_devices.h"

namespace es::scheduler {
namespace {

DeviceSet set(const char* text) {
  return parse_device_set(text).value();
}

JobView in_need_of(std::uint32_t devices) {
  JobView job;
  job.id = "job";
  job.types = {{"a"}, {"b"}};
  job.min_devices = devices;
  job.mix_types = true;
  job.proposals = {{.type = {"b"}, .count = 1, .speedup = 2.0}};
  return job;
}

TEST_SUITE("scheduler/policy/missing_devices") {
  TEST_CASE("free devices come before held ones, then those with the largest gain") {
    CHECK(missing_devices(in_need_of(1), true, set("a:1"), set("b:1")) == set("a:1"));
    CHECK(missing_devices(in_need_of(2), true, set("a:1"), set("a:1+b:1")) == set("a:1+b:1"));
    CHECK(missing_devices(in_need_of(1), true, set("a:1+b:1"), {}) == set("b:1"));
  }

  TEST_CASE("without enough devices the answer is none, and a single type is not mixed") {
    CHECK_FALSE(missing_devices(in_need_of(3), true, set("a:1"), set("b:1")));
    CHECK_FALSE(missing_devices(in_need_of(2), false, set("a:1"), set("b:1")));
    CHECK(missing_devices(in_need_of(2), false, set("a:1+b:1"), set("a:1")) == set("a:2"));
  }
}

}  // namespace
}  // namespace es::scheduler
