#include "scheduler/policy/common/policy.h"

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
  job.proposals = {{{"a"}, 2, 1.5}, {{"b"}, 1, 1.2}, {{"c"}, 1, 1.2}};
  return {devices("a:3+b:3+c:3"), {}, {job}};
}

bool allowed(const ClusterView& view, const Decisions& decisions) {
  return check_decisions(view, decisions).ok();
}

Decisions grant(const char* granted, const char* shrunk = nullptr) {
  Decisions decisions{{{0, devices(granted)}}, {}};
  if (shrunk != nullptr) decisions.shrinks = {{0, devices(shrunk)}};
  return decisions;
}

Decisions shrink(const char* shrunk) {
  return {{}, {{0, devices(shrunk)}}};
}

}  // namespace

TEST_SUITE("scheduler/policy/policy") {
  TEST_CASE("deciding nothing keeps all rules") {
    CHECK(allowed(one_job_view(), {}));
  }

  TEST_CASE("a job grows by what it proposed, within its maximum, types and the free devices") {
    ClusterView view = one_job_view();
    CHECK(allowed(view, grant("a:1")));
    CHECK(allowed(view, grant("a:2")));
    CHECK_FALSE(allowed(view, grant("a:3")));  // It was not proposed, and exceeds the maximum.
    view.jobs[0].max_devices = 3;
    CHECK_FALSE(allowed(view, grant("a:2")));  // It exceeds the maximum.
    CHECK_FALSE(allowed(view, grant("b:1")));  // It would mix types.
    view.jobs[0].mix_types = true;
    CHECK(allowed(view, grant("b:1")));
    CHECK_FALSE(allowed(view, grant("c:1")));  // The job does not allow the type.
    view.free = devices("b:3");
    CHECK_FALSE(allowed(view, grant("a:1")));  // No such device is free.
  }

  TEST_CASE("a job that has not settled is given nothing beyond its minimum") {
    ClusterView view = one_job_view();
    view.jobs[0].settled = false;
    CHECK_FALSE(allowed(view, grant("a:1")));
    CHECK(allowed(view, shrink("a:1")));
    view.jobs[0].min_devices = 3;
    CHECK(allowed(view, grant("a:1")));
  }

  TEST_CASE("a minimum is granted whole; a job that starts is given anything within its bounds") {
    ClusterView view = one_job_view();
    view.jobs[0].min_devices = 3;
    CHECK(allowed(view, grant("a:1")));
    CHECK_FALSE(allowed(view, grant("a:2")));
    view.jobs[0].held = {};
    CHECK(allowed(view, grant("a:3")));
    CHECK_FALSE(allowed(view, grant("a:2")));
    CHECK_FALSE(allowed(view, grant("a:2+b:1")));
  }

  TEST_CASE("a job migrates by giving all its devices back for devices of other types") {
    const ClusterView view = one_job_view();
    CHECK(allowed(view, grant("b:3", "a:2")));
    CHECK_FALSE(allowed(view, grant("b:3", "a:1")));  // It would mix types.
    CHECK_FALSE(allowed(view, grant("c:3", "a:2")));  // The job does not allow the type.
    CHECK_FALSE(allowed(view, grant("a:1", "a:2")));  // The same device is given and taken.
  }

  TEST_CASE("a job is neither granted nor moved onto devices that it refuses") {
    ClusterView view = one_job_view();
    view.jobs[0].refusals = {{devices("a:2"), {{"a"}}, {}}, {devices("b:1"), {{"b"}}, {}}};
    CHECK_FALSE(allowed(view, grant("a:1")));
    CHECK_FALSE(allowed(view, grant("b:3", "a:2")));
    CHECK(allowed(view, grant("b:1", "a:2")));
    view.jobs[0].held = {};
    CHECK_FALSE(allowed(view, grant("a:3")));
    CHECK(allowed(view, grant("a:2")));
    view.jobs[0].held = devices("a:4");  // Its owner may have chosen that.
    CHECK(allowed(view, shrink("a:1")));
    view.jobs[0].mix_types = true;
    view.jobs[0].held = devices("a:2");
    CHECK(allowed(view, grant("b:1")));
  }

  TEST_CASE("a job that mixes types may exchange some of its devices for proposed ones") {
    ClusterView view = one_job_view();
    view.jobs[0].mix_types = true;
    CHECK(allowed(view, grant("b:1", "a:1")));
    CHECK_FALSE(allowed(view, grant("b:2", "a:1")));  // It was not proposed.
  }

  TEST_CASE("a shrunk job keeps its minimum, or is suspended") {
    ClusterView view = one_job_view();
    CHECK(allowed(view, shrink("a:1")));
    CHECK(allowed(view, shrink("a:2")));
    CHECK_FALSE(allowed(view, shrink("b:1")));
    view.jobs[0].may_suspend = false;
    CHECK_FALSE(allowed(view, shrink("a:2")));
    view.jobs[0].may_suspend = true;
    view.jobs[0].min_devices = 2;
    CHECK_FALSE(allowed(view, shrink("a:1")));
    CHECK(allowed(view, shrink("a:2")));
  }

  TEST_CASE("a pinned job is granted exactly what is missing, and never shrunk") {
    ClusterView view = one_job_view();
    view.jobs[0].pinned = devices("a:1+b:2");
    CHECK(allowed(view, grant("b:2")));
    CHECK_FALSE(allowed(view, grant("b:1")));
    CHECK_FALSE(allowed(view, shrink("a:1")));
  }

  TEST_CASE("empty slots, empty changes and two changes of one kind are errors") {
    ClusterView view = one_job_view();
    view.jobs.emplace_back();
    CHECK_FALSE(allowed(view, {{{1, devices("a:1")}}, {}}));
    CHECK_FALSE(allowed(view, {{{2, devices("a:1")}}, {}}));
    CHECK_FALSE(allowed(view, {{{0, {}}}, {}}));
    CHECK_FALSE(allowed(view, {{{0, devices("a:1")}, {0, devices("a:1")}}, {}}));
  }

  TEST_CASE("a grant keeps the limits of the queue of the job, and of the queues above it") {
    ClusterView view = one_job_view();
    view.queues =
        *completed_queues({{.name = "top", .guarantee = devices("a:2"), .borrow = {{{"a"}, 2}}},
                           {.name = "x", .guarantee = {}, .parent = "top"}});
    view.jobs[0].queue = "x";
    CHECK(allowed(view, grant("a:2")));
    JobView other = view.jobs[0];
    other.id = "k";
    other.held = devices("a:1");
    view.jobs.push_back(other);
    CHECK_FALSE(allowed(view, grant("a:2")));
    CHECK(allowed(view, grant("a:1")));
    // What another job gives back at once is room.
    Decisions both = grant("a:2");
    both.shrinks = {{1, devices("a:1")}};
    CHECK(allowed(view, both));
    // Nothing has to be given back to a queue that is beyond its limit already.
    view.jobs[1].held = devices("a:4");
    CHECK(allowed(view, {}));
    const Status status = check_decisions(view, grant("a:1"));
    CHECK(status.error().message ==
          "policy: job j: granted \"a:1\", so that queue top has 7 of a, beyond its limit");
  }

  TEST_CASE("a job is granted what its price limit allows, and nothing without a budget") {
    ClusterView view = one_job_view();
    view.prices.per_hour = {{{"a"}, 2}, {{"b"}, 3}};
    view.jobs[0].price_limit = 4;
    CHECK(allowed(view, grant("a:2")));
    view.jobs[0].price_limit = 2.5;
    CHECK(!allowed(view, grant("a:2")));
    CHECK(!allowed(view, grant("b:1")));
    CHECK(allowed(view, shrink("a:1")));
    view.jobs[0].price_limit = kNever.count();
    view.jobs[0].budget_left = 0;
    CHECK(!allowed(view, grant("a:2")));
  }

  TEST_CASE("a policy may request another call later, not now") {
    ClusterView view = one_job_view();
    view.now = Seconds(5);
    CHECK(allowed(view, {{}, {}, Seconds(5.5)}));
    CHECK_FALSE(allowed(view, {{}, {}, Seconds(5)}));
  }

  TEST_CASE("work continues at the measured rate once a pause is over") {
    JobView job = one_job_view().jobs[0];
    job.work = {.total_steps = 100,
                .remaining_steps = 50,
                .steps_per_s = 2,
                .as_of = Seconds(10),
                .paused_until = Seconds(20),
                .attained_device_s = 7};
    CHECK(remaining_steps_at(job, Seconds(15)) == 50);
    CHECK(remaining_steps_at(job, Seconds(30)) == 30);
    CHECK(remaining_steps_at(job, Seconds(100)) == 0);
    CHECK(attained_device_s_at(job, Seconds(15)) == 17);
  }
}

}  // namespace es::scheduler
