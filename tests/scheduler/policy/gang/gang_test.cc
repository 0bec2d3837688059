#include "scheduler/policy/gang/gang.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <queue>

#include "scheduler/policy/common/waits.h"
#include "scheduler/policy/gang/reservation.h"
#include "scheduler/policy/registry.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/scheduler/study/world.h"
#include "tests/support/seed.h"

namespace es::study {
namespace {

Job job(const char* id, double submit_s, std::uint32_t max_p, double alone_s) {
  Job job;
  job.id = id;
  job.submit_s = submit_s;
  job.max_p = max_p;
  job.steps = alone_s * max_p;
  job.capabilities[{"gpu"}] = 1;
  return job;
}

// When each job was first given devices, on four devices and without a cost of changes.
std::vector<double> starts(const char* policy, std::vector<Job> jobs) {
  Trace trace{"test", *parse_device_set("gpu:4"), std::move(jobs)};
  Rules rules;
  rules.start_s = rules.rescale_s = 0;
  std::vector<double> times;
  for (const JobResult& j : run(trace, **scheduler::make_policy(policy), rules).jobs)
    times.push_back(j.start_s);
  return times;
}

using Times = std::vector<double>;

// EASY backfill on four devices of one type, written from the papers: what the first waiting job
// needs is reserved at the earliest possible time, and the others start if they do not delay it.
Times plain_easy(const std::vector<Job>& jobs) {
  struct Running {
    double end_s;
    std::uint32_t devices;
  };
  Times starts(jobs.size(), -1);
  std::vector<Running> running;
  std::uint32_t free = 4;
  std::vector<double> events;
  for (const Job& job : jobs) events.push_back(job.submit_s);
  const auto alone_s = [](const Job& job) { return job.steps / job.max_p; };
  for (std::size_t e = 0; e < events.size(); ++e) {
    std::sort(events.begin() + static_cast<std::ptrdiff_t>(e), events.end());
    const double now = events[e];
    std::erase_if(running, [&](const Running& r) {
      if (r.end_s <= now) free += r.devices;
      return r.end_s <= now;
    });
    double shadow = scheduler::kNeverS;
    std::uint32_t spare = 0;
    bool is_reserved = false;
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (starts[j] >= 0 || jobs[j].submit_s > now) continue;
      const double end_s = now + alone_s(jobs[j]);
      const bool in_time = end_s <= shadow;
      if (jobs[j].max_p <= free && (!is_reserved || in_time || jobs[j].max_p <= spare)) {
        free -= jobs[j].max_p;
        if (is_reserved && !in_time) spare -= jobs[j].max_p;
        starts[j] = now;
        running.push_back({end_s, jobs[j].max_p});
        events.push_back(end_s);
      } else if (!is_reserved) {
        is_reserved = true;
        std::ranges::sort(running, {}, &Running::end_s);
        std::uint32_t then = free;
        for (const Running& r : running) {
          if (r.end_s > shadow) break;
          then += r.devices;
          if (then >= jobs[j].max_p) shadow = r.end_s;
        }
        spare = then - jobs[j].max_p;
      }
    }
  }
  return starts;
}

constexpr scheduler::GangRules kSrtf{scheduler::GangRules::Order::kRemainingTime,
                                     scheduler::GangRules::Blocking::kNone, true};

// Jobs for which srtf decides without looking at all of them.
void make_simple(scheduler::ClusterView& view) {
  view.queues.clear();
  for (scheduler::JobView& job : view.jobs) {
    job.pinned.reset();
    job.may_suspend = true;
    if (!job.types.empty()) job.types.resize(1);
  }
}

// Devices by slot, for a decision in any order.
std::map<std::size_t, std::string> by_slot(const std::vector<scheduler::Change>& changes) {
  std::map<std::size_t, std::string> result;
  for (const scheduler::Change& c : changes) result[c.slot] = c.devices.text();
  return result;
}

// A job on devices of one type that it holds, or waits for if `held` is empty.
void add_job(scheduler::ClusterView& view, const char* queue, std::uint32_t devices,
             const std::string& held) {
  scheduler::JobView one;
  one.number = view.jobs.size();
  one.id = "j" + std::to_string(one.number);
  one.queue = queue;
  one.types = {{"gpu"}};
  one.capabilities[{"gpu"}] = 1;
  one.max_p = one.max_devices = devices;
  one.work = {.total_steps = 1e4, .remaining_steps = 1e4};
  if (!held.empty()) one.held = *parse_device_set(held);
  view.jobs.push_back(one);
}

}  // namespace

TEST_SUITE("scheduler/policy/gang") {
  const std::vector<Job> kJobs = {job("a", 0, 2, 100), job("b", 1, 4, 50), job("c", 2, 2, 10)};

  TEST_CASE("fifo-serial runs one job at a time") {
    CHECK(starts("fifo-serial", kJobs) == Times{0, 100, 150});
  }

  TEST_CASE("fifo-gang waits behind the first job that does not fit") {
    CHECK(starts("fifo-gang", kJobs) == Times{0, 100, 150});
    CHECK(starts("fifo-gang", {kJobs[0], kJobs[2]}) == Times{0, 2});
  }

  TEST_CASE("fifo-backfill passes over a job that does not fit") {
    CHECK(starts("fifo-backfill", kJobs) == Times{0, 100, 2});
  }

  TEST_CASE("easy-backfill lets a job overtake only if it does not delay the first that waits") {
    const std::vector<Job> first = {job("a", 0, 2, 100), job("b", 1, 3, 50)};
    const auto with = [&](const Job& other) {
      std::vector<Job> jobs = first;
      jobs.push_back(other);
      return starts("easy-backfill", jobs);
    };
    // b is reserved 3 of the 4 devices from 100 s on: one device is not needed for it.
    CHECK(with(job("ends in time", 2, 2, 98)) == Times{0, 100, 2});
    CHECK(with(job("is too long", 2, 2, 99)) == Times{0, 100, 150});
    CHECK(with(job("needs no reserved device", 2, 1, 500)) == Times{0, 100, 2});
  }

  TEST_CASE("easy-backfill starts every job when a plain program of the papers starts it") {
    test::RandomViews random(test::seed("easy"));
    for (int i = 0; i < 300; ++i) {
      std::vector<Job> jobs;
      double submit_s = 0;
      for (int j = 0; j < 12; ++j) {
        const std::string id = "j" + std::to_string(j);
        jobs.push_back(job(id.c_str(), submit_s, random.draw(1, 4), random.draw(1, 20) * 8.0));
        submit_s += random.draw(0, 40);
      }
      CHECK(starts("easy-backfill", jobs) == plain_easy(jobs));
    }
  }

  TEST_CASE("a reservation is of the type that is free first, and ends of one moment count") {
    using scheduler::Counts;
    const Counts left{1, 0}, two_a{2, 0}, three_b{0, 3}, four_b{0, 4};
    const auto reserved = scheduler::earliest_reservation(
        {{4, 0}, {0, 3}}, left, {{50, two_a}, {20, four_b}, {50, two_a}, {20, three_b}});
    REQUIRE(reserved);
    CHECK(reserved->type == 1);
    CHECK(reserved->from_s == 20);
    CHECK(reserved->spare == 4);
    CHECK(reserved->allows({9, 0}, 100));
    CHECK(reserved->allows({0, 9}, 20));
    CHECK(reserved->allows({0, 4}, 100));
    CHECK_FALSE(reserved->allows({0, 5}, 100));
    CHECK_FALSE(scheduler::earliest_reservation({{4, 0}}, left, {{50, two_a}}));
    CHECK_FALSE(scheduler::earliest_reservation({}, left, {{50, two_a}}));
  }

  TEST_CASE("a job that would delay a reservation waits for the first job, by name") {
    scheduler::ClusterView view;
    view.total = *parse_device_set("gpu:4");
    view.free = *parse_device_set("gpu:2");
    const auto add = [&](const char* id, std::uint32_t devices, double steps) -> auto& {
      scheduler::JobView one;
      one.number = view.jobs.size();
      one.id = id;
      one.types = {{"gpu"}};
      one.capabilities[{"gpu"}] = 1;
      one.max_p = one.max_devices = devices;
      one.work = {.total_steps = steps, .remaining_steps = steps};
      view.jobs.push_back(one);
      return view.jobs.back();
    };
    auto& runs = add("runs", 2, 200);
    runs.held = *parse_device_set("gpu:2");
    runs.work.steps_per_s = 2;
    add("first", 4, 100);
    add("too long", 2, 1000);
    const auto policy = *std::move(scheduler::make_policy("easy-backfill"));
    const auto waiting =
        scheduler::waiting_beside_free(view, policy->decide(view), policy->starts_with());
    REQUIRE(waiting.size() == 1);
    CHECK(waiting[0].slot == 2);
    REQUIRE(waiting[0].why);
    CHECK(waiting[0].why->rule == scheduler::WaitRule::kKept);
    CHECK(waiting[0].why->after == 1);
    CHECK(waiting[0].why->until == scheduler::Seconds(100));
  }

  TEST_CASE("where one running job is called back for a guarantee, the others go on") {
    for (const char* policy : {"fifo-gang", "fifo-backfill", "easy-backfill"}) {
      CAPTURE(policy);
      scheduler::ClusterView view;
      view.total = *parse_device_set("gpu:5");
      view.queues = *scheduler::completed_queues(
          {{.name = "owner", .guarantee = *parse_device_set("gpu:2")}, {.name = "lent"}});
      add_job(view, "lent", 2, "gpu:2");
      add_job(view, "lent", 2, "gpu:2");
      add_job(view, "lent", 1, "gpu:1");
      add_job(view, "owner", 2, "");
      const scheduler::Decisions decisions = (*scheduler::make_policy(policy))->decide(view);
      CHECK(by_slot(decisions.shrinks) == std::map<std::size_t, std::string>{{1, "gpu:2"}});
    }
  }

  TEST_CASE("a job that runs within the part of its queue keeps it beside an earlier borrower") {
    // Otherwise the part is that of the borrower, the later job is called back, and is given the
    // part again.
    for (const char* policy : {"fifo-gang", "fifo-backfill", "easy-backfill"}) {
      CAPTURE(policy);
      scheduler::ClusterView view;
      view.total = *parse_device_set("gpu:4");
      view.queues =
          *scheduler::completed_queues({{.name = "x", .guarantee = *parse_device_set("gpu:1")},
                                        {.name = "y", .guarantee = *parse_device_set("gpu:3")}});
      add_job(view, "x", 2, "gpu:2");
      add_job(view, "x", 1, "gpu:1");
      add_job(view, "y", 1, "gpu:1");
      add_job(view, "y", 2, "");
      const scheduler::Decisions decisions = (*scheduler::make_policy(policy))->decide(view);
      CHECK(by_slot(decisions.shrinks) == std::map<std::size_t, std::string>{{0, "gpu:2"}});
    }
  }

  TEST_CASE("srtf suspends a longer job for a shorter one") {
    CHECK(starts("srtf", kJobs) == Times{0, 1, 2});
    CHECK(starts("srtf", {job("a", 0, 4, 100), job("b", 10, 4, 20)}) == Times{0, 10});
  }

  TEST_CASE("las suspends a job when it leaves its queue") {
    // Four devices: the first queue ends after 900 s.
    CHECK(starts("las", {job("a", 0, 4, 2000), job("b", 10, 4, 20)}) == Times{0, 900});
  }

  TEST_CASE("a gang has the requested type, or the fastest one") {
    scheduler::ClusterView view;
    view.total = view.free = *parse_device_set("fast:4+slow:4");
    scheduler::JobView j;
    j.id = "j";
    j.max_devices = j.max_p = 2;
    j.types = {{"fast"}, {"slow"}};
    j.capabilities = {{{"fast"}, 2.0}, {{"slow"}, 1.0}};
    view.jobs = {j};
    const auto granted = [&] {
      return (*scheduler::make_policy("fifo-gang"))->decide(view).grants.at(0).devices.text();
    };
    CHECK(granted() == "fast:2");
    view.jobs[0].gang_type = {"slow"};
    CHECK(granted() == "slow:2");
    view.jobs[0].refusals = {{*parse_device_set("slow:1"), {{"slow"}}, {}}};
    CHECK(granted() == "slow:1");
  }

  TEST_CASE("a job whose type is taken runs on another type that it may use") {
    for (const char* policy : {"fifo-gang", "fifo-backfill", "srtf", "las"}) {
      CAPTURE(policy);
      scheduler::ClusterView view;
      view.total = view.free = *parse_device_set("fast:2+slow:2");
      for (std::uint64_t number : {0, 1}) {
        scheduler::JobView j;
        j.id = number == 0 ? "a" : "b";
        j.number = number;
        j.max_devices = j.max_p = 2;
        j.types = {{"fast"}, {"slow"}};
        j.capabilities = {{{"fast"}, 2.0}, {{"slow"}, 1.0}};
        view.jobs.push_back(j);
      }
      const scheduler::Decisions decisions = (*scheduler::make_policy(policy))->decide(view);
      REQUIRE(decisions.grants.size() == 2);
      CHECK(by_slot(decisions.grants)[0] == "fast:2");
      CHECK(by_slot(decisions.grants)[1] == "slow:2");
    }
  }

  TEST_CASE("srtf with its index decides the same as by a full scan") {
    constexpr auto kFullScan = scheduler::ScanMode::kFullScan;
    test::RandomViews random(test::seed("srtf kept"));
    std::size_t grants = 0, shrinks = 0;
    for (int walk = 0; walk < 200; ++walk) {
      scheduler::GangPolicy policy(kSrtf);
      scheduler::ClusterView view = random.view(walk % 2 == 0 ? 14 : 100);
      for (int step = 0; step < 60; ++step) {
        if (walk % 4 > 0) make_simple(view);
        const scheduler::Decisions kept = policy.decide(view);
        const scheduler::Decisions all = scheduler::GangPolicy(kSrtf, kFullScan).decide(view);
        CHECK(by_slot(kept.grants) == by_slot(all.grants));
        CHECK(by_slot(kept.shrinks) == by_slot(all.shrinks));
        grants += kept.grants.size();
        shrinks += kept.shrinks.size();
        random.advance(view, kept);
      }
    }
    CHECK(grants > 1000);
    CHECK(shrinks > 1000);
  }
}

}  // namespace es::study
