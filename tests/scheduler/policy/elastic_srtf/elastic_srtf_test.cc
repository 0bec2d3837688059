#include "scheduler/policy/elastic_srtf/elastic_srtf.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy/registry.h"
#include "tests/scheduler/study/world.h"

namespace es::study {
namespace {

constexpr double kSpeed = 1;  // Local steps per second of every device in this file.

Job job(const char* id, double submit_s, std::uint32_t max_p, double alone_s) {
  Job job;
  job.id = id;
  job.submit_s = submit_s;
  job.max_p = max_p;
  job.steps = alone_s * max_p * kSpeed;
  job.capabilities[{"gpu"}] = kSpeed;
  return job;
}

Trace trace(std::uint32_t devices, std::vector<Job> jobs) {
  Trace trace{"test", {}, std::move(jobs)};
  trace.cluster.add({"gpu"}, devices);
  return trace;
}

Report report(const Trace& trace, Rules rules = {}, const char* name = "elastic-srtf",
              double fairness = 0.5) {
  rules.start_s = 10;
  return run(trace, **scheduler::make_policy(name, {.fairness = fairness}), rules);
}

double jct(const Report& r, const char* id) {
  for (const JobResult& j : r.jobs)
    if (j.id == id) return j.end_s - j.submit_s;
  return -1;
}

}  // namespace

TEST_SUITE("scheduler/policy/elastic-srtf") {
  TEST_CASE("a short job takes devices of a long one, which shrinks and gets them back") {
    const Report r = report(trace(4, {job("long", 0, 4, 1000), job("short", 100, 2, 50)}));
    CHECK(jct(r, "short") == doctest::Approx(60));
    CHECK(r.jobs[0].rescales == 2);
    // 60 s on two of four devices cost the long job 30 s. A pause of one second costs half a second
    // there.
    CHECK(jct(r, "long") == doctest::Approx(1000 + 10 + 30 + 0.5 + 1));
  }

  TEST_CASE("a job that is nearly done is not stopped for one that is only a little shorter") {
    Rules rules;
    rules.rescale_s = 30;
    const Report r = report(trace(1, {job("first", 0, 1, 100), job("second", 30, 1, 60)}), rules);
    CHECK(r.jobs[0].rescales == 0);
    CHECK(jct(r, "first") == doctest::Approx(110));
  }

  TEST_CASE("small work comes before short time: many narrow jobs run before a wide one") {
    std::vector<Job> jobs = {job("wide", 0, 4, 100)};
    for (const char* id : {"a", "b", "c", "d"}) jobs.push_back(job(id, 20, 1, 150));
    const Report r = report(trace(4, jobs));
    CHECK(jct(r, "a") < 200);
    CHECK(jct(r, "wide") > 200);
  }

  TEST_CASE("the jobs of the critical path never wait") {
    std::vector<Job> jobs = {job("critical", 0, 1, 5000)};
    for (int i = 0; i < 40; ++i) {
      jobs.push_back(job("x", 10 + 60 * i, 8, 60));
      jobs.back().id += std::to_string(i);
    }
    const Report r = report(trace(8, jobs));
    CHECK(r.makespan_s == doctest::Approx(5010));
  }

  TEST_CASE("higher priority comes first, however long it is") {
    std::vector<Job> jobs = {job("short", 0, 2, 100), job("long", 20, 2, 500)};
    jobs[1].priority = 1;
    const Report r = report(trace(2, jobs));
    CHECK(jct(r, "long") == doctest::Approx(510));
    CHECK(jct(r, "short") > 500);
  }

  TEST_CASE("a deadline in danger comes before shorter work, a missed one does not") {
    std::vector<Job> jobs = {job("short", 0, 2, 100), job("late", 0, 2, 200)};
    CHECK(jct(report(trace(2, jobs)), "late") > 300);
    jobs[1].deadline_s = 230;
    CHECK(jct(report(trace(2, jobs)), "late") == doctest::Approx(210));
    jobs[1].deadline_s = 0;
    CHECK(jct(report(trace(2, jobs)), "late") > 300);
  }

  TEST_CASE("no job starves: a wide job in an endless stream of short ones") {
    std::vector<Job> jobs = {job("wide", 5, 4, 200)};
    for (int i = 0; i < 2000; ++i) {
      jobs.push_back(job("s", 10 * i, 1, 29));
      jobs.back().id += std::to_string(i);
    }
    // Four devices. Shorter work always wants at least three of them.
    for (auto& j : jobs) j.min_devices = j.max_p;
    std::sort(jobs.begin(), jobs.end(),
              [](const Job& a, const Job& b) { return a.submit_s < b.submit_s; });
    for (const auto& [fairness, bound] : {std::pair{0.5, 2 * 2.0}, {1.0, 2 * 1.05}}) {
      const Report r = report(trace(4, jobs), {}, "elastic-srtf", fairness);
      CAPTURE(fairness);
      CHECK(r.worst_rho < bound + 0.5);
    }
    const Report srtf = report(trace(4, jobs), {}, "srtf");
    CHECK(srtf.worst_rho > 5);
  }

  TEST_CASE("jobs of unknown length come last, and share the time equally") {
    scheduler::ClusterView view;
    view.total = *parse_device_set("gpu:1");
    view.now = scheduler::Seconds(100);
    for (const char* id : {"known", "served", "new"}) {
      scheduler::JobView j;
      j.id = id;
      j.number = view.jobs.size();
      j.submitted = scheduler::Seconds(90);
      j.types = {{"gpu"}};
      j.capabilities[{"gpu"}] = kSpeed;
      view.jobs.push_back(j);
    }
    view.jobs[0].work.total_steps = view.jobs[0].work.remaining_steps = 1000;
    view.jobs[1].held = view.total;
    view.jobs[1].started = true;
    view.jobs[1].work.attained_device_s = 500;
    const auto policy = std::move(*scheduler::make_policy("elastic-srtf"));
    CHECK(policy->decide(view).shrinks.size() == 1);
    view.jobs[1].held = {};
    view.free = view.total;
    REQUIRE(policy->decide(view).grants.size() == 1);
    CHECK(policy->decide(view).grants[0].slot == 0);
    view.jobs[0] = {};
    REQUIRE(policy->decide(view).grants.size() == 1);
    CHECK(policy->decide(view).grants[0].slot == 2);
  }

  TEST_CASE("a job that may not mix types does not begin on one that is far too slow") {
    scheduler::ClusterView view;
    view.total = *parse_device_set("fast:1+slow:1");
    view.free = *parse_device_set("slow:1");
    view.now = scheduler::Seconds(100);
    for (const double steps : {500.0, 1000.0}) {
      scheduler::JobView j;
      j.id = "j" + std::to_string(view.jobs.size());
      j.number = view.jobs.size();
      j.submitted = scheduler::Seconds(90);
      j.types = {{"fast"}, {"slow"}};
      j.capabilities = {{{"fast"}, 1.0}, {{"slow"}, 0.9}};
      j.work.total_steps = j.work.remaining_steps = steps;
      view.jobs.push_back(j);
    }
    view.jobs[0].held = *parse_device_set("fast:1");
    view.jobs[0].started = true;
    view.jobs[0].priority = 1;  // the other one does not take its device
    const auto granted = [&view] {
      const auto policy = std::move(*scheduler::make_policy("elastic-srtf"));
      std::size_t count = 0;
      for (const scheduler::Change& grant : policy->decide(view).grants)
        count += grant.slot == 1 ? 1 : 0;
      return count;
    };
    CHECK(granted() == 1);
    view.jobs[1].capabilities[{"slow"}] = 0.4;
    CHECK(granted() == 0);  // 2,500 s there, and 1,500 s if it waits for the fast device
    view.jobs[1].mix_types = true;
    CHECK(granted() == 1);  // it can move later
    view.jobs[1].mix_types = false;
    view.jobs[0].work.total_steps = view.jobs[0].work.remaining_steps = 900;
    view.jobs[1].work.total_steps = view.jobs[1].work.remaining_steps = 300;
    CHECK(granted() == 1);  // 750 s; the other job takes longer
  }

  TEST_CASE("idle devices of a tenant are lent, and given back when the tenant needs them") {
    std::vector<Job> jobs = {job("borrower", 0, 4, 100), job("owner", 50, 2, 1000)};
    jobs[0].tenant = "b";
    jobs[1].tenant = "a";
    Rules rules;
    rules.queues = {{"a", *parse_device_set("gpu:2")}, {"b", *parse_device_set("gpu:2")}};
    const Report r = report(trace(4, jobs), rules);
    CHECK(jct(r, "owner") == doctest::Approx(1010));
    CHECK(jct(r, "borrower") > 150);  // Half of it on half of the devices.
    const Report gang = report(trace(4, jobs), rules, "srtf");
    CHECK(jct(gang, "owner") == doctest::Approx(1010));
  }

  TEST_CASE("the devices of a pinned job use up the quota of its tenant") {
    scheduler::ClusterView view;
    view.now = scheduler::Seconds(100);
    view.total = *parse_device_set("gpu:8");
    view.free = *parse_device_set("gpu:4");
    view.queues = {{"a", *parse_device_set("gpu:4")}, {"b", *parse_device_set("gpu:4")}};
    for (const char* id : {"short", "pinned", "owner"}) {
      scheduler::JobView job;
      job.id = id;
      job.number = view.jobs.size();
      job.queue = job.id == "owner" ? "b" : "a";
      job.max_p = job.max_devices = 4;
      job.types = {{"gpu"}};
      job.capabilities = {{{"gpu"}, 1.0}};
      job.work.total_steps = job.work.remaining_steps = job.id == "short" ? 1000 : 100000;
      view.jobs.push_back(job);
    }
    scheduler::JobView& pinned = view.jobs[1];
    pinned.pinned = pinned.held = *parse_device_set("gpu:4");
    pinned.started = true;
    // The shorter job comes first, but tenant a uses all that it owns.
    for (const char* name : {"elastic-srtf", "srtf", "fifo-backfill"}) {
      CAPTURE(name);
      const auto policy = std::move(*scheduler::make_policy(name));
      const scheduler::Decisions decisions = policy->decide(view);
      REQUIRE(decisions.grants.size() == 1);
      CHECK(decisions.grants[0].slot == 2);
      CHECK(decisions.grants[0].devices == *parse_device_set("gpu:4"));
    }
  }

  TEST_CASE("with one type no job waits while devices of its tenant are lent to others") {
    std::vector<Job> jobs;
    for (int i = 0; i < 60; ++i) {
      jobs.push_back(job("j", 20 * i, 1 + i % 4, 50 + 13 * (i % 7)));
      jobs.back().id += std::to_string(i);
      jobs.back().tenant = i % 6 == 0 ? "a" : "b";
    }
    Rules rules;
    rules.queues = {{"a", *parse_device_set("gpu:6")}, {"b", *parse_device_set("gpu:2")}};
    const Report r = report(trace(8, jobs), rules);
    // Tenant a never asks for more than its six devices. Its jobs start at once, or when the pause
    // of a borrower is over.
    for (std::size_t i = 0; i < jobs.size(); i += 6)
      CHECK(r.jobs[i].start_s - r.jobs[i].submit_s < 25);
  }

  // 51 jobs of about 10,000 s on 34 devices. If 17 of them wait for the end of others, the last job
  // ends at 20,000 s; with changes at the right time all can end soon after 15,000 s.
  TEST_CASE("of one-device jobs each gives its device up at most about once, and all end in time") {
    std::vector<Job> jobs;
    for (int i = 0; i < 51; ++i) {
      jobs.push_back(job("j", 0, 1, 9700 + 600.0 * (i * 23 % 51) / 50));
      jobs.back().id += std::to_string(i);
    }
    const Report r = report(trace(34, jobs));
    CHECK(r.rescales <=
          33);  // The wrap-around divides at most one job fewer than there are devices.
    CHECK(r.makespan_s < 1.03 * 15000);
    CHECK(r.avg_jct_s < 1.02 * report(trace(34, jobs), {}, "srtf").avg_jct_s);
  }

  TEST_CASE("at the fair end jobs that are equally late take long turns") {
    std::vector<Job> jobs;
    for (int i = 0; i < 120; ++i) {
      jobs.push_back(job("j", 40 * i, 1, 100 + 50.0 * (i * 31 % 17)));
      jobs.back().id += std::to_string(i);
    }
    // Half more work than the eight devices do while jobs arrive.
    const Report fair = report(trace(8, jobs), {}, "elastic-srtf", 1);
    const Report equal = report(trace(8, jobs), {}, "max-min-fair");
    CHECK(fair.rescales < 6 * jobs.size());
    CHECK(fair.worst_rho < 1.05 * equal.worst_rho);
    CHECK(fair.avg_jct_s < equal.avg_jct_s);
  }

  TEST_CASE("the more a change costs, the fewer changes are made") {
    std::vector<std::uint64_t> rescales;
    for (const double cost_s : {1.0, 30.0, 120.0}) {
      Rules rules;
      rules.rescale_s = cost_s;
      rescales.push_back(report(make_crowd(300, 1), rules).rescales);
    }
    CHECK(rescales[1] < rescales[0]);
    CHECK(rescales[2] < rescales[1]);
  }

  TEST_CASE("a job waits for a device that becomes free soon, and takes one that would not") {
    Rules rules;
    rules.rescale_s = 30;
    // The first job ends at 10 + 200 s, within six pauses of the third job's arrival.
    const Report r = report(
        trace(2, {job("ends", 0, 1, 200), job("long", 0, 1, 5000), job("new", 100, 1, 50)}), rules);
    CHECK(r.jobs[1].rescales == 0);
    CHECK(r.jobs[2].start_s == doctest::Approx(210));
    const Report other = report(
        trace(2, {job("ends", 0, 1, 900), job("long", 0, 1, 5000), job("new", 100, 1, 50)}), rules);
    CHECK(other.jobs[2].start_s == doctest::Approx(100));
  }

  TEST_CASE("a change that is free is charged like one of a second") {
    Rules rules;
    rules.rescale_s = 0;
    // A device becomes free 5 s later, within six pauses.
    const Report r = report(
        trace(2, {job("ends", 0, 1, 95), job("long", 0, 1, 5000), job("new", 100, 1, 50)}), rules);
    CHECK(r.jobs[2].start_s == doctest::Approx(105));
    CHECK(r.rescales == 0);
  }

  TEST_CASE("a job leaves devices to waiting jobs that can use no others, if that is worth it") {
    scheduler::ClusterView view;
    view.total = *parse_device_set("fast:1+slow:1+third:1");
    view.free = *parse_device_set("fast:1+slow:1");
    view.now = scheduler::Seconds(100);
    const auto add = [&view](double steps, scheduler::Capabilities capabilities) {
      scheduler::JobView j;
      j.id = "j" + std::to_string(view.jobs.size());
      j.number = view.jobs.size();
      j.submitted = scheduler::Seconds(90);
      for (const auto& [type, speed] : capabilities) j.types.push_back(type);
      j.capabilities = std::move(capabilities);
      j.mix_types = true;
      j.start_pause = scheduler::Seconds(0);
      j.work.total_steps = j.work.remaining_steps = steps;
      view.jobs.push_back(j);
    };
    // The type that the decision gives to the first job.
    const auto type_of_first = [&view] {
      const auto policy = std::move(*scheduler::make_policy("elastic-srtf"));
      for (const scheduler::Change& grant : policy->decide(view).grants)
        if (grant.slot == 0) return grant.devices.text();
      return std::string("none");
    };
    add(100, {{{"fast"}, 1.0}, {{"slow"}, 0.6}});  // the shortest one, so it is served first
    add(500, {{{"fast"}, 1.0}});
    // It decides the end of all jobs, so none of the others has to come first for that.
    add(50'000, {{{"third"}, 1.0}});
    view.jobs.back().held = *parse_device_set("third:1");
    view.jobs.back().started = true;
    CHECK(type_of_first() == "fast:1");
    add(600, {{{"fast"}, 1.0}});
    CHECK(type_of_first() == "slow:1");  // two jobs wait for one device
    view.jobs[0].capabilities[{"slow"}] = 0.3;
    CHECK(type_of_first() == "fast:1");  // 333 s in place of 100 s is more than they gain
    for (int i = 0; i < 3; ++i) add(700, {{{"fast"}, 1.0}});
    CHECK(type_of_first() == "slow:1");  // five jobs gain
    view.free = *parse_device_set("fast:1");
    CHECK(type_of_first() == "fast:1");  // nothing else is free
    // What it holds it keeps.
    view.free = *parse_device_set("slow:1");
    view.jobs[0].held = *parse_device_set("fast:1");
    view.jobs[0].started = true;
    CHECK(type_of_first() == "none");
  }

  TEST_CASE("the work of jobs is compared by devices, whichever types they can use") {
    scheduler::ClusterView view;
    view.total = *parse_device_set("fast:2+slow:6");
    view.free = *parse_device_set("fast:1");
    view.now = scheduler::Seconds(100);
    const auto add = [&view](double steps, std::vector<DeviceType> types) {
      scheduler::JobView j;
      j.id = "j" + std::to_string(view.jobs.size());
      j.number = view.jobs.size();
      j.submitted = scheduler::Seconds(90);
      j.types = std::move(types);
      for (const DeviceType& type : j.types) j.capabilities[type] = 1;
      j.mix_types = true;
      j.work.total_steps = j.work.remaining_steps = steps;
      view.jobs.push_back(j);
    };
    add(300, {{"fast"}});
    add(400, {{"fast"}, {"slow"}});
    // It decides the end of all jobs, so none of the others has to come first for that.
    add(50'000, {{"slow"}});
    view.jobs.back().held = *parse_device_set("slow:1");
    view.jobs.back().started = true;
    const auto first = [&view] {
      const auto policy = std::move(*scheduler::make_policy("elastic-srtf"));
      const auto grants = policy->decide(view).grants;
      return grants.size() == 1 ? grants[0].slot : std::size_t{99};
    };
    CHECK(first() == 0);
    view.jobs[0].work.total_steps = view.jobs[0].work.remaining_steps = 500;
    CHECK(first() == 1);
  }

  TEST_CASE("jobs that are bound to a type do not compete with those on other types") {
    // The wide job is bound to the slow type and decides the end of all. Jobs on the fast type have
    // more work together, and nothing to do with it.
    Trace types{"types", *parse_device_set("fast:4+slow:4"), {}};
    const auto add = [&](const std::string& id, const char* type, std::uint32_t max_p,
                         double alone_s) {
      types.jobs.push_back(job(id.c_str(), 0, max_p, alone_s));
      types.jobs.back().capabilities = {{{type}, kSpeed}};
    };
    add("last", "slow", 4, 8000);
    for (int i = 0; i < 8; ++i) add("slow" + std::to_string(i), "slow", 1, 300);
    for (int i = 0; i < 12; ++i) add("fast" + std::to_string(i), "fast", 4, 800);
    // 8,600 s of work on the slow devices, and 9,600 s on the fast ones.
    CHECK(report(types).makespan_s < 1.03 * 9720);
  }
}

}  // namespace es::study
