// The rules that hold for every policy, on random clusters.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "scheduler/model/device_sets.h"
#include "scheduler/policy/common/linear_program.h"
#include "scheduler/policy/common/price_choice.h"
#include "scheduler/policy/common/waits.h"
#include "scheduler/policy/registry.h"
#include "tests/scheduler/policy/random_views.h"
#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

using test::RandomViews;

std::unique_ptr<Policy> make(std::string_view name) {
  return std::move(*make_policy(name));
}

bool holds_queues(std::string_view name) {
  for (const PolicyInfo& info : policies())
    if (info.name == name) return info.holds_queues;
  return false;
}

// A random view. A head refuses queues together with a policy that does not support them.
ClusterView view_for(RandomViews& random, std::string_view policy) {
  ClusterView view = random.view(14);
  if (!holds_queues(policy)) view.queues.clear();
  return view;
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
    ClusterView view = view_for(random, name);
    for (int s = 0; s < steps; ++s) {
      const Decisions decisions = policy->decide(view);
      visit(random, view, decisions);
      random.advance(view, decisions);
    }
  }
}

// Queues with jobs of one device each at least, on devices of one type; no job has anything yet.
ClusterView queues_view(RandomViews& random) {
  ClusterView view;
  view.now = Seconds(1000);
  view.total.add({"a"}, random.draw(4, 12));
  view.free = view.total;
  for (std::uint32_t j = random.draw(2, 12); j > 0; --j) {
    JobView job;
    job.number = view.jobs.size();
    job.id = "j" + std::to_string(job.number);
    job.queue = random.one_in(2) ? "vision" : random.one_in(2) ? "speech" : "";
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

std::uint32_t held_by(const ClusterView& view, const std::string& queue) {
  std::uint32_t held = 0;
  for (const JobView& job : view.jobs)
    if (job.queue == queue) held += job.held.total();
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

  TEST_CASE("no device is idle beside a job that fits, unless a rule is named that ends") {
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      const StartsWith least = make(info.name)->starts_with();
      walk(info.name, 400, 40, [&](RandomViews&, const ClusterView& view, const Decisions& d) {
        const Status status = check_idle(view, d, least);
        CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message));
      });
    }
  }

  TEST_CASE("jobs with a deadline or a budget are granted what they are limited to by prices") {
    std::uint32_t limited = 0, granted = 0;
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      walk(info.name, 20, 20, [&](RandomViews& random, const ClusterView& view, const Decisions&) {
        ClusterView priced = view;
        priced.changed.reset();
        for (const char* type : {"a", "b", "c"})
          if (!random.one_in(4)) priced.prices.per_hour[{type}] = random.draw(1, 50) / 7.0;
        for (JobView& job : priced.jobs) {
          if (job.id.empty()) continue;
          if (random.one_in(3)) job.budget_left = random.draw(0, 40) / 10.0;
          if (random.one_in(3)) job.deadline = priced.now + Seconds(random.draw(10, 5000));
          limit_by_price(job, priced.total, priced.prices, priced.now);
          limited += job.price_limit < kNever.count() ? 1 : 0;
        }
        const Decisions decisions = make(info.name)->decide(priced);
        const Status status = check_decisions(priced, decisions);
        CHECK_MESSAGE(status.ok(), (status.ok() ? "" : status.error().message));
        for (const Change& grant : decisions.grants)
          granted += priced.jobs[grant.slot].price_limit < kNever.count() ? 1 : 0;
      });
    }
    CHECK(limited > 1000);
    CHECK(granted > 100);
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
      for (int i = 0; i < 3000; ++i) {
        ClusterView view = view_for(random, info.name);
        const auto policy = make(info.name);
        int rounds = 0;
        for (; rounds < 100; ++rounds) {
          const Decisions d = policy->decide(view);
          if (d.grants.empty() && d.shrinks.empty()) break;
          // A proposal is void once the devices of the job have changed.
          for (const Change& c : d.shrinks) {
            view.jobs[c.slot].held = beyond(view.jobs[c.slot].held, c.devices);
            view.jobs[c.slot].proposals.clear();
            view.free = sum(view.free, c.devices);
          }
          for (const Change& c : d.grants) {
            JobView& job = view.jobs[c.slot];
            job.held = sum(job.held, c.devices);
            job.proposals.clear();
            job.changed = view.now;
            job.work.paused_until = view.now + (job.started ? job.rescale_pause : job.start_pause);
            view.free = beyond(view.free, c.devices);
          }
        }
        CHECK(rounds < 100);
      }
    }
  }

  TEST_CASE("no job waits while enough devices of its queue are lent to others") {
    for (const PolicyInfo& info : policies()) {
      // One job at a time leaves devices unused, also those of the queue.
      if (!info.holds_queues || info.name == "fifo-serial") continue;
      CAPTURE(info.name);
      const bool is_elastic = info.name == "elastic-srtf";
      RandomViews random(test::seed("queues"));
      for (int i = 0; i < 200; ++i) {
        ClusterView view = queues_view(random);
        come_to_rest(*make(info.name), view);  // all is common
        const std::uint32_t owned = random.draw(1, view.total.total());
        view.queues = {{"vision", *parse_device_set("a:" + std::to_string(owned))}};
        come_to_rest(*make(info.name), view);
        for (const JobView& job : view.jobs) {
          if (job.queue != "vision" || !job.held.empty()) continue;
          const std::uint32_t needs = is_elastic ? job.min_devices : job.max_devices;
          CHECK(held_by(view, "vision") + needs > owned);
        }
      }
    }
  }

  TEST_CASE("a guarantee is kept also beside jobs of another queue that may not be suspended") {
    for (const PolicyInfo& info : policies()) {
      if (!info.holds_queues || info.name == "fifo-serial") continue;
      CAPTURE(info.name);
      RandomViews random(test::seed("guarantees"));
      for (int i = 0; i < 200; ++i) {
        ClusterView view;
        view.now = Seconds(1000);
        const std::uint32_t devices = random.draw(4, 12), guaranteed = random.draw(1, devices - 1);
        view.total.add({"a"}, devices);
        view.free = view.total;
        const auto queue = [](const char* name, std::uint32_t n) {
          return Queue{.name = name, .guarantee = *parse_device_set("a:" + std::to_string(n))};
        };
        view.queues =
            *completed_queues({queue("batch", devices - guaranteed), queue("service", guaranteed)});
        const auto add = [&](const char* name, std::uint32_t count) {
          for (std::uint32_t j = 0; j < count; ++j) {
            JobView job;
            job.number = view.jobs.size();
            job.id = "j" + std::to_string(job.number);
            job.queue = name;
            job.types = {{"a"}};
            job.capabilities[{"a"}] = 1;
            job.priority = static_cast<int>(random.draw(0, 2));
            job.may_suspend = job.queue == "service" || random.one_in(2);
            job.work = {.total_steps = 1e4, .remaining_steps = 1.0 * random.draw(100, 10000)};
            job.work.as_of = view.now;
            job.proposals.push_back({{"a"}, 1, 2.0});
            view.jobs.push_back(std::move(job));
          }
        };
        add("batch", random.draw(1, 12));
        come_to_rest(*make(info.name), view);
        std::uint32_t fixed = 0;
        for (const JobView& job : view.jobs) fixed += job.may_suspend ? 0 : job.held.total();
        // They come first within the part of their queue, by which the fixed ones may lose nothing.
        add("batch", random.draw(0, 4));
        const std::uint32_t wanted = random.draw(1, 12);
        add("service", wanted);
        come_to_rest(*make(info.name), view);
        CHECK(held_by(view, "service") >= std::min({wanted, guaranteed, devices - fixed}));
      }
    }
  }

  TEST_CASE("a pinned job is not promised what an unsuspendable job has left of its minimum") {
    // Otherwise both would wait: the pinned job for a device that is never given up, and the other
    // one beside a free device with which it would run.
    for (const std::string policy : {"elastic-srtf", "max-min-fair", "easyscale"}) {
      CAPTURE(policy);
      ClusterView view;
      view.now = Seconds(1000);
      view.total = *parse_device_set("a:3+b:1");
      view.free = *parse_device_set("a:2+b:1");
      const auto add = [&](const char* id) -> JobView& {
        JobView job;
        job.number = view.jobs.size();
        job.id = id;
        job.types = {{"a"}, {"b"}};
        job.capabilities = {{{"a"}, 2}, {{"b"}, 1}};
        job.max_p = job.max_devices = 4;
        job.work = {.total_steps = 1e4, .remaining_steps = 1e3};
        job.work.as_of = view.now;
        view.jobs.push_back(std::move(job));
        return view.jobs.back();
      };
      add("pinned").pinned = *parse_device_set("a:3");
      JobView& lost = add("lost one of two");
      lost.mix_types = true;
      lost.may_suspend = false;
      lost.started = true;
      lost.min_devices = 2;
      lost.held = *parse_device_set("a:1");
      come_to_rest(*make(policy), view);
      CHECK(view.jobs[1].held.total() >= 2);
    }
  }

  TEST_CASE("borrowed devices are shared by weight, and limits are kept") {
    for (const PolicyInfo& info : policies()) {
      if (!info.holds_queues || info.name == "fifo-serial") continue;
      CAPTURE(info.name);
      ClusterView view;
      view.now = Seconds(1000);
      view.total = view.free = *parse_device_set("a:16");
      view.queues =
          *completed_queues({{.name = "x", .guarantee = *parse_device_set("a:4"), .weight = 3},
                             {.name = "y", .guarantee = {}, .weight = 1},
                             {.name = "z",
                              .guarantee = *parse_device_set("a:1"),
                              .borrow = {{{"a"}, 1}},
                              .weight = 5}});
      // Many jobs of one device each, of every queue and of none, in random order.
      for (std::uint64_t j = 0; j < 80; ++j) {
        JobView job;
        job.number = j;
        job.id = "j" + std::to_string(j);
        job.queue = j % 4 == 0 ? "x" : j % 4 == 1 ? "y" : j % 4 == 2 ? "z" : "";
        job.types = {{"a"}};
        job.capabilities[{"a"}] = 1;
        job.work = {.total_steps = 1e4,
                    .remaining_steps = 100.0 + static_cast<double>(j * 37 % 80)};
        job.work.as_of = view.now;
        job.proposals.push_back({{"a"}, 1, 2.0});
        view.jobs.push_back(std::move(job));
      }
      come_to_rest(*make(info.name), view);
      // z has 2 by its limit. 11 of the 16 are guaranteed to no queue: z takes one, and the others
      // are shared 3 to 1. Jobs in no queue get nothing while queues want everything.
      CHECK(held_by(view, "z") == 2);
      CHECK(held_by(view, "x") + held_by(view, "y") == 14);
      CHECK(held_by(view, "x") >= 4 + 7);
      CHECK(held_by(view, "y") >= 2);
      CHECK(held_by(view, "") == 0);
    }
  }

  TEST_CASE("queues of a higher tier take devices from running jobs of a lower one") {
    for (const PolicyInfo& info : policies()) {
      if (!info.holds_queues || info.name == "fifo-serial") continue;
      CAPTURE(info.name);
      ClusterView view;
      view.now = Seconds(1000);
      view.total = view.free = *parse_device_set("a:8");
      view.queues =
          *completed_queues({{.name = "low", .guarantee = *parse_device_set("a:2"), .weight = 1},
                             {.name = "high", .guarantee = {}, .weight = 1, .tier = 1}});
      const auto add = [&](const std::string& queue, std::uint64_t count) {
        for (std::uint64_t j = 0; j < count; ++j) {
          JobView job;
          job.number = view.jobs.size();
          job.id = queue + std::to_string(j);
          job.queue = queue;
          job.types = {{"a"}};
          job.capabilities[{"a"}] = 1;
          // Jobs of the lower tier are shorter and earlier, and have a higher priority.
          const bool is_low = queue == "low";
          job.priority = is_low ? 5 : 0;
          job.work = {.total_steps = 1e6, .remaining_steps = is_low ? 5e4 : 9e5};
          job.work.as_of = view.now;
          view.jobs.push_back(std::move(job));
        }
      };
      add("low", 12);
      come_to_rest(*make(info.name), view);
      CHECK(held_by(view, "low") == 8);
      add("high", 3);
      come_to_rest(*make(info.name), view);
      CHECK(held_by(view, "high") == 3);
      CHECK(held_by(view, "low") == 5);
      // The guarantee holds against every tier.
      add("high", 9);
      come_to_rest(*make(info.name), view);
      CHECK(held_by(view, "high") == 6);
      CHECK(held_by(view, "low") == 2);
    }
  }

  TEST_CASE("of jobs with equal priority those with a smaller share level are served first") {
    for (const PolicyInfo& info : policies()) {
      // Share levels are those of queues. One job at a time is no competition.
      if (!info.holds_queues || info.name == "fifo-serial") continue;
      CAPTURE(info.name);
      RandomViews random(test::seed("share levels"));
      for (int i = 0; i < 50; ++i) {
        ClusterView view = queues_view(random);
        std::uint32_t first = 0;  // jobs of the smallest level
        for (JobView& job : view.jobs) {
          job.max_p = job.max_devices = 1;
          job.share_level = random.draw(0, 2);
          // They are the longest and the last ones.
          if (job.share_level == 0) job.work.total_steps = job.work.remaining_steps = 1e6;
          if (job.share_level == 0) job.number += 1000, ++first;
        }
        come_to_rest(*make(info.name), view);
        std::uint32_t held = 0;
        for (const JobView& job : view.jobs)
          if (job.share_level == 0) held += job.held.total();
        CHECK(held == std::min(first, view.total.total()));
        // A higher priority comes before every level.
        ClusterView other = view;
        for (JobView& job : other.jobs) {
          other.free = sum(other.free, job.held);
          job.held = {};
          job.started = false;
          job.priority = job.share_level == 2 ? 1 : 0;
        }
        std::uint32_t important = 0, has = 0;
        for (const JobView& job : other.jobs) important += job.priority == 1 ? 1 : 0;
        come_to_rest(*make(info.name), other);
        for (const JobView& job : other.jobs)
          if (job.priority == 1) has += job.held.total();
        CHECK(has == std::min(important, other.total.total()));
      }
    }
  }

  TEST_CASE("reclaim ends: whoever borrows gives back, until every queue has its guarantee") {
    for (const PolicyInfo& info : policies()) {
      if (!info.holds_queues || info.name == "fifo-serial") continue;
      CAPTURE(info.name);
      RandomViews random(test::seed("reclaim"));
      for (int i = 0; i < 100; ++i) {
        ClusterView view = queues_view(random);
        for (JobView& job : view.jobs) job.max_p = job.max_devices = 1;
        come_to_rest(*make(info.name), view);  // all is common
        const std::uint32_t vision = random.draw(0, view.total.total());
        const std::uint32_t speech = random.draw(0, view.total.total() - vision);
        DeviceSet vision_has, speech_has, both;
        if (vision > 0) vision_has.add({"a"}, vision);
        if (speech > 0) speech_has.add({"a"}, speech);
        view.queues =
            *completed_queues({{"all", {}},
                               {.name = "vision", .guarantee = vision_has, .parent = "all"},
                               {.name = "speech", .guarantee = speech_has, .parent = "all"}});
        come_to_rest(*make(info.name), view);
        for (const auto& [name, guaranteed] : {std::pair{"vision", vision}, {"speech", speech}}) {
          std::uint32_t jobs = 0;
          for (const JobView& job : view.jobs) jobs += job.queue == name ? 1 : 0;
          CHECK(held_by(view, name) >= std::min(jobs, guaranteed));
        }
      }
    }
  }

  TEST_CASE("queues are held, or refused by name") {
    const std::vector<Queue> queues{{"vision", *parse_device_set("a:1")}};
    for (const PolicyInfo& info : policies()) {
      CAPTURE(info.name);
      CHECK(check_queues(info.name, {}).ok());
      const Status status = check_queues(info.name, queues);
      CHECK(status.ok() == info.holds_queues);
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
