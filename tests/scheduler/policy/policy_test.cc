#include "scheduler/policy/policy.h"

#include <doctest/doctest.h>

namespace es::scheduler {
namespace {

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

ClusterView one_job_view() {
  JobView job;
  job.id = "j";
  job.held = devices("a:2");
  job.min_devices = 1;
  job.max_devices = 4;
  job.types = {{"a"}, {"b"}};
  job.proposals = {{{"a"}, 1, 1.5}, {{"a"}, 3, 2.0}, {{"b"}, 1, 1.2}, {{"c"}, 1, 1.2}};
  return {devices("a:3+b:3+c:3"), {}, {job}};
}

bool allowed(const ClusterView& view, const Decisions& decisions) {
  return check_decisions(view, decisions).ok();
}

}  // namespace

TEST_SUITE("scheduler/policy/policy") {
  TEST_CASE("deciding nothing keeps all rules") {
    CHECK(allowed(one_job_view(), {}));
  }

  TEST_CASE(
      "a job is granted only what it proposed, within its maximum, types and the free devices") {
    ClusterView view = one_job_view();
    CHECK(allowed(view, {{{"j", devices("a:1")}}, {}}));
    CHECK_FALSE(allowed(view, {{{"j", devices("a:2")}}, {}}));  // not proposed
    CHECK_FALSE(allowed(view, {{{"j", devices("a:3")}}, {}}));  // beyond its maximum
    CHECK_FALSE(allowed(view, {{{"j", devices("b:1")}}, {}}));  // would mix types
    view.jobs[0].mix_types = true;
    CHECK(allowed(view, {{{"j", devices("b:1")}}, {}}));
    CHECK_FALSE(allowed(view, {{{"j", devices("c:1")}}, {}}));  // type not allowed
    view.free = devices("b:3");
    CHECK_FALSE(allowed(view, {{{"j", devices("a:1")}}, {}}));  // not free
  }

  TEST_CASE("a minimum is granted whole, before any proposal") {
    ClusterView view = one_job_view();
    view.jobs[0].min_devices = 4;
    CHECK_FALSE(allowed(view, {{{"j", devices("a:1")}}, {}}));
    CHECK(allowed(view, {{{"j", devices("a:2")}}, {}}));
  }

  TEST_CASE("a job is not shrunk below its minimum, nor by what it does not hold") {
    ClusterView view = one_job_view();
    CHECK(allowed(view, {{}, {{"j", devices("a:1")}}}));
    CHECK_FALSE(allowed(view, {{}, {{"j", devices("a:2")}}}));
    CHECK_FALSE(allowed(view, {{}, {{"j", devices("b:1")}}}));
    CHECK_FALSE(allowed(view, {{{"j", devices("a:1")}}, {{"j", devices("a:1")}}}));
  }

  TEST_CASE("a pinned job is granted exactly what is missing, and never shrunk") {
    ClusterView view = one_job_view();
    view.jobs[0].pinned = devices("a:1+b:2");
    CHECK(allowed(view, {{{"j", devices("b:2")}}, {}}));
    CHECK_FALSE(allowed(view, {{{"j", devices("b:1")}}, {}}));
    CHECK_FALSE(allowed(view, {{}, {{"j", devices("a:1")}}}));
  }

  TEST_CASE("unknown jobs, empty changes and two changes of one kind are errors") {
    const ClusterView view = one_job_view();
    CHECK_FALSE(allowed(view, {{{"k", devices("a:1")}}, {}}));
    CHECK_FALSE(allowed(view, {{{"j", {}}}, {}}));
    CHECK_FALSE(allowed(view, {{{"j", devices("a:1")}, {"j", devices("a:1")}}, {}}));
  }
}

}  // namespace es::scheduler
