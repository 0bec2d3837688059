// The rules that hold for every policy, on random clusters.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "scheduler/model/device_sets.h"
#include "scheduler/policy/registry.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

using test::RandomViews;

std::unique_ptr<Policy> make(std::string_view name) {
  return std::move(*make_policy(name));
}

// Grants and shrinks by slot, in slot order.
using ByJob = std::map<std::size_t, std::pair<std::string, std::string>>;

ByJob by_job(const Decisions& decisions) {
  ByJob result;
  for (const Change& c : decisions.grants) result[c.slot].first = c.devices.text();
  for (const Change& c : decisions.shrinks) result[c.slot].second = c.devices.text();
  return result;
}

// Walks through random clusters. `visit` sees each view and the decisions of the policy.
template <class Visit>
void walk(std::string_view name, int walks, int steps, const Visit& visit) {
  RandomViews random(test::seed(std::string(name).c_str()));
  for (int w = 0; w < walks; ++w) {
    const auto policy = make(name);
    ClusterView view = random.view(14);
    for (int s = 0; s < steps; ++s) {
      const Decisions decisions = policy->decide(view);
      visit(random, view, decisions);
      random.advance(view, decisions);
    }
  }
}

// Tenants with jobs of one device each at least, on devices of one type; no job has anything yet.
ClusterView tenants_view(RandomViews& random) {
  ClusterView view;
  view.now = Seconds(1000);
  view.total.add({"a"}, random.draw(4, 12));
  view.free = view.total;
  for (std::uint32_t j = random.draw(2, 12); j > 0; --j) {
    JobView job;
    job.number = view.jobs.size();
    job.id = "j" + std::to_string(job.number);
    job.tenant = random.one_in(2) ? "vision" : random.one_in(2) ? "speech" : "";
    job.types = {{"a"}};
    job.capabilities[{"a"}] = 1;
    job.max_p = job.max_devices = random.draw(1, 4);
    job.work = {.total_steps = 1e4, .remaining_steps = 1.0 * random.draw(100, 10000)};
    for (std::uint32_t n = 1; n <= job.max_devices; ++n)
      job.proposals.push_back({{"a"}, n, 1.0 + n});
    job.work.as_of = view.now;
    view.jobs.push_back(std::move(job));
  }
  return view;
}

// Carries decisions out until there are none. A change costs nothing.
void come_to_rest(Policy& policy, ClusterView& view) {
  for (int round = 0; round < 100; ++round) {
    const Decisions d = policy.decide(view);
    if (d.grants.empty() && d.shrinks.empty()) return;
    for (const Change& c : d.shrinks) {
      view.jobs[c.slot].held = beyond(view.jobs[c.slot].held, c.devices);
      view.free = sum(view.free, c.devices);
    }
    for (const Change& c : d.grants) {
      view.jobs[c.slot].held = sum(view.jobs[c.slot].held, c.devices);
      view.jobs[c.slot].started = true;
      view.free = beyond(view.free, c.devices);
    }
  }
  FAIL("the policy does not come to rest");
}

std::uint32_t held_by(const ClusterView& view, const std::string& tenant) {
  std::uint32_t held = 0;
  for (const JobView& job : view.jobs)
    if (job.tenant == tenant) held += job.held.total();
  return held;
}

}  // namespace

TEST_SUITE("scheduler/policy/every policy") {
  TEST_CASE(
      "keeps the rules: no device is given twice, and grants are within proposals and bounds") {
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      walk(info.name, 60, 40, [&](RandomViews&, const ClusterView& view, const Decisions& d) {
        const Status status = check_decisions(view, d);
        CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message));
      });
    }
  }

  TEST_CASE("is a function of the view: earlier views change nothing") {
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      walk(info.name, 30, 40, [&](RandomViews&, const ClusterView& view, const Decisions& d) {
        const Decisions fresh = make(info.name)->decide(view);
        CHECK(by_job(fresh) == by_job(d));
        CHECK(fresh.again_at == d.again_at);
      });
    }
  }

  TEST_CASE("does not depend on the slots that jobs are in") {
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      walk(info.name, 30, 20,
           [&](RandomViews& random, const ClusterView& view, const Decisions& d) {
             std::vector<std::size_t> new_slot_of;
             const ClusterView other = random.shuffled(view, new_slot_of);
             ByJob expected;
             for (const auto& [slot, change] : by_job(d)) expected[new_slot_of[slot]] = change;
             CHECK(by_job(make(info.name)->decide(other)) == expected);
           });
    }
  }

  TEST_CASE("comes to rest: no two decisions at one time undo each other") {
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      RandomViews random(test::seed("come to rest"));
      for (int i = 0; i < 200; ++i) {
        ClusterView view = random.view(14);
        const auto policy = make(info.name);
        int rounds = 0;
        for (; rounds < 100; ++rounds) {
          const Decisions d = policy->decide(view);
          if (d.grants.empty() && d.shrinks.empty()) break;
          for (const Change& c : d.shrinks) {
            view.jobs[c.slot].held = beyond(view.jobs[c.slot].held, c.devices);
            view.free = sum(view.free, c.devices);
          }
          for (const Change& c : d.grants) {
            JobView& job = view.jobs[c.slot];
            job.held = sum(job.held, c.devices);
            job.changed = view.now;
            job.work.paused_until = view.now + (job.started ? job.rescale_pause : job.start_pause);
            view.free = beyond(view.free, c.devices);
          }
        }
        CHECK(rounds < 100);
      }
    }
  }

  TEST_CASE("no job waits while enough devices of its tenant are lent to others") {
    for (const PolicyInfo& info : policies()) {
      // One job at a time leaves devices unused, also those of the tenant.
      if (!info.holds_quotas || info.name == "fifo-serial") continue;
      CAPTURE(info.name);
      const bool is_elastic = info.name == "elastic-srtf";
      RandomViews random(test::seed("quotas"));
      for (int i = 0; i < 200; ++i) {
        ClusterView view = tenants_view(random);
        come_to_rest(*make(info.name), view);  // all is common, so tenants borrow
        const std::uint32_t owned = random.draw(1, view.total.total());
        view.quotas = {{"vision", *parse_device_set("a:" + std::to_string(owned))}};
        come_to_rest(*make(info.name), view);
        for (const JobView& job : view.jobs) {
          if (job.tenant != "vision" || !job.held.empty()) continue;
          const std::uint32_t needs = is_elastic ? job.min_devices : job.max_devices;
          CHECK(held_by(view, "vision") + needs > owned);
        }
      }
    }
  }

  TEST_CASE("quotas are held, or refused by name") {
    const std::vector<Quota> quotas{{"vision", *parse_device_set("a:1")}};
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      CHECK(check_quotas(info.name, {}).ok());
      const Status status = check_quotas(info.name, quotas);
      CHECK(status.ok() == info.holds_quotas);
      if (status.ok()) continue;
      CHECK(status.error().kind == ErrorKind::kUsage);
      CHECK(status.error().message.find(info.name) != std::string::npos);
      CHECK(status.error().message.find("elastic-srtf, fifo-serial") != std::string::npos);
    }
  }

  TEST_CASE(
      "unknown names and options out of range are refused, and the error lists what is allowed") {
    const auto unknown = make_policy("fastest");
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().kind == ErrorKind::kUsage);
    CHECK(unknown.error().message.find("elastic-srtf, easyscale") != std::string::npos);
    CHECK_FALSE(make_policy("elastic-srtf", {.fairness = 1.5}).ok());
    CHECK(policies().front().name == "elastic-srtf");
  }
}

}  // namespace es::scheduler
