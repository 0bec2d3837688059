// What holds in every simulation: on random traces, under every policy, with claims, lost nodes and
// slow devices.
#include <caf/all.hpp>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "actors/base/protocol/shell/caf_messages.h"
#include "actors/base/protocol/wire/wire_devices.h"
#include "tests/actors/sim/head_oracle.h"
#include "tests/actors/sim/small_traces.h"
#include "tests/scheduler/policy/watched_policy.h"
#include "tests/support/seed.h"

namespace es::actors::simulator {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  std::uint32_t operator()(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_() % (high - low + 1));
  }

 private:
  std::mt19937_64 random_;
};

// A serving load of several claims that begin, change and end.
std::vector<store::TraceClaim> random_claims(Draw& draw) {
  std::vector<store::TraceClaim> claims;
  for (const char* name : {"x", "y"}) {
    double at_s = 0;
    for (std::uint32_t i = draw(0, 8); i > 0; --i) {
      at_s += draw(1, 600);
      claims.push_back({at_s, draw(0, 1) == 0 ? "a" : "b", draw(0, 2), name});
    }
    claims.push_back({at_s + 600, "a", 0, name});
  }
  std::ranges::stable_sort(claims, {}, &store::TraceClaim::time_s);
  return claims;
}

// Rates of mishaps that are high enough for every job to meet one.
SimulationOptions rough_weather(const std::string& policy, std::uint64_t seed) {
  Draw draw(seed);
  SimulationOptions how = options(policy, draw(0, 10));
  how.checkpoint_s = draw(20, 200);
  how.world.seed = seed;
  how.world.devices_per_node = draw(1, 3);
  how.world.failure_hours = draw(5, 20) / 10.0;
  how.world.repair_s = draw(10, 600);
  how.world.straggler_hours = draw(5, 20) / 10.0;
  how.world.straggler_s = draw(10, 1000);
  how.world.straggler_factor = draw(11, 60) / 10.0;
  how.world.sync_s = draw(0, 3) / 10.0;
  how.world.claims = random_claims(draw);
  return how;
}

SimulationResult run_watched(const Workload& work, SimulationOptions how, HeadOracle& oracle) {
  how.watch = [&](Instant now, std::uint64_t receiver, const caf::mailbox_element& message) {
    oracle.see(now, receiver, message);
  };
  std::vector<std::string> idle;
  how.watch_policy = [&](std::unique_ptr<scheduler::Policy> policy) {
    return std::make_unique<test::WatchedPolicy>(std::move(policy), idle);
  };
  SimulationResult result = run(work, how);
  for (const std::string& what : oracle.violations()) FAIL_CHECK(what);
  for (const std::string& what : idle) FAIL_CHECK(what);
  return result;
}

template <class Schema, class Fill>
void tell(HeadOracle& oracle, const char* job, Fill&& fill) {
  const auto element =
      caf::make_mailbox_element(nullptr, caf::make_message_id(), {},
                                Msg<Schema>::build({.job = job}, std::forward<Fill>(fill)));
  oracle.see({}, 0, *element);
}

// The job proposes `count` more devices of type a. Then it is allocated the first `devices` of node
// n.
void propose_and_allocate(HeadOracle& oracle, const char* job, std::uint64_t sequence,
                          std::uint32_t count, std::uint32_t devices) {
  tell<wire::Demand>(oracle, job, [&](wire::Demand::Builder b) {
    auto proposal = b.initProposals(1)[0];
    proposal.setDeviceType("a");
    proposal.setCount(count);
    b.setSequence(sequence);
  });
  tell<wire::Allocation>(oracle, "", [&](wire::Allocation::Builder b) {
    b.setSequence(sequence + 1);
    auto list = b.initDevices(devices);
    for (std::uint32_t i = 0; i < devices; ++i) put(list[i], {"n", {"a"}, i});
  });
}

struct Measured {
  DeviceSet devices;
  double step_s = 0;
};

// For the placements of one job in order: once the speeds of both are measured, no placement is
// slower than the smaller one before it. `tries` counts how often that was tried. A speed is known
// after four steps, and a job leaves at the boundary after the next step.
void check_never_left_slower(const std::vector<Placement>& placements, int& tries) {
  constexpr double kMeasuredSteps = 5, kLeftSteps = 8, kSlower = 1.05;
  std::optional<Measured> before;
  for (const Placement& p : placements) {
    const bool grew = before && p.devices != before->devices && p.devices.contains(before->devices);
    const double steps = (p.to_s < 0 ? p.from_s : p.to_s) - p.from_s;
    const bool slower = grew && p.step_s > kSlower * before->step_s;
    if (slower && p.to_s >= 0) {
      ++tries;
      CHECK_MESSAGE(steps <= kLeftSteps * p.step_s, p.job, ": ", p.devices.text(), " from ",
                    p.from_s, " to ", p.to_s, " with ", p.step_s, " s a step, before ",
                    before->devices.text(), " with ", before->step_s);
    }
    if (steps >= kMeasuredSteps * p.step_s)
      before = Measured{p.devices, p.step_s};
    else if (!grew)
      before.reset();
  }
}

// The share of each job in the report, at the time when it ended.
void check_owned(const SimulationResult& result, const HeadOracle& oracle) {
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const JobId id = "job-" + std::to_string(i + 1);
    const auto owned = oracle.owned_device_s().find(id);
    REQUIRE(owned != oracle.owned_device_s().end());
    CHECK_MESSAGE(result.jobs[i].device_s == doctest::Approx(owned->second).epsilon(1e-9), id);
  }
}

void check_samples(const SimulationResult& result, const DeviceSet& cluster) {
  for (const Sample& sample : result.samples)
    for (std::size_t t = 0; t < result.types.size(); ++t) {
      REQUIRE(sample.held[t] <= cluster.count_of(result.types[t]));
      REQUIRE(sample.computing[t] <= sample.held[t]);
    }
}

}  // namespace

TEST_SUITE("actors/sim/promises") {
  TEST_CASE("the oracle finds broken promises") {
    const Workload work = workload({job("j", 0, 4, 8), job("k", 0, 4, 8)}, "a:4");
    HeadOracle good(work), beyond(work), twice(work);
    propose_and_allocate(good, "job-1", 0, 4, 1);
    propose_and_allocate(good, "job-1", 1, 2, 3);
    CHECK(good.violations().empty());
    propose_and_allocate(beyond, "job-1", 0, 4, 1);
    propose_and_allocate(beyond, "job-1", 1, 1, 3);
    CHECK(beyond.violations().size() == 1);
    propose_and_allocate(twice, "job-1", 0, 4, 1);
    propose_and_allocate(twice, "job-2", 0, 4, 1);
    REQUIRE(twice.violations().size() == 1);
    CHECK(twice.violations()[0].find("n/a:0 of job-1 is granted to job-2") != std::string::npos);
  }

  TEST_CASE("under all faults the head keeps its promises and every job ends") {
    const std::uint64_t first = test::seed("promises of the head");
    std::uint64_t grants = 0, taken_back = 0, growths = 0;
    std::uint32_t failures = 0, stragglers = 0;
    for (std::uint64_t seed = first; seed < first + 6; ++seed) {
      const Workload work = random_workload(seed, 20);
      for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
        CAPTURE(policy.name);
        CAPTURE(seed);
        HeadOracle oracle(work);
        const SimulationResult result =
            run_watched(work, rough_weather(std::string(policy.name), seed), oracle);
        CHECK(result.unfinished == 0);
        grants += oracle.grants();
        taken_back += oracle.taken_back();
        growths += oracle.growths();
        failures += result.failures;
        stragglers += result.stragglers;
      }
    }
    CHECK(grants > 1000);
    CHECK(taken_back > 1000);
    CHECK(growths > 100);
    CHECK(failures > 100);
    CHECK(stragglers > 100);
  }

  // Changes are slow, so that old and new devices are held together for a long time.
  TEST_CASE("the devices that a job is reported to hold are those that the head lets it own") {
    const std::uint64_t first = test::seed("devices of moving jobs");
    std::uint64_t beyond_max_p = 0;
    for (std::uint64_t seed = first; seed < first + 6; ++seed) {
      const Workload work = random_workload(seed, 20);
      for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
        CAPTURE(policy.name);
        CAPTURE(seed);
        SimulationOptions how = rough_weather(std::string(policy.name), seed);
        how.world.rescale_s = 30;
        how.world.failure_hours = 0;  // The test above covers lost nodes.
        HeadOracle oracle(work);
        const SimulationResult result = run_watched(work, how, oracle);
        check_owned(result, oracle);
        check_samples(result, work.cluster);
        beyond_max_p += oracle.beyond_max_p();
      }
    }
    CHECK(beyond_max_p > 10);
  }

  TEST_CASE(
      "no job stays slower after a grant once it is measured, or gets again what it refuses") {
    const std::uint64_t first = test::seed("never left slower");
    int tries = 0;
    std::uint64_t growths = 0;
    for (std::uint64_t seed = first; seed < first + 6; ++seed) {
      const Workload work = random_workload(seed, 12);
      for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
        CAPTURE(policy.name);
        CAPTURE(seed);
        SimulationOptions how = options(std::string(policy.name), 2);
        how.world.sync_s = 0.2 + 0.2 * static_cast<double>(seed % 5);
        Draw draw(seed);
        how.world.claims = random_claims(draw);
        HeadOracle oracle(work, how.world.sync_s);
        CHECK(run_watched(work, how, oracle).unfinished == 0);
        std::map<JobId, std::vector<Placement>> by_job;
        for (const Placement& p : oracle.placements()) by_job[p.job].push_back(p);
        for (const auto& [id, placements] : by_job) check_never_left_slower(placements, tries);
        growths += oracle.growths();
      }
    }
    // Jobs learn what synchronisation costs here, so few or none of the grants make one slower.
    MESSAGE("placements that made a job slower: ", tries);
    CHECK(growths > 10);
  }

  TEST_CASE("quotas: the devices of a tenant go to its own jobs first") {
    const std::uint64_t first = test::seed("simulated quotas");
    for (const scheduler::PolicyInfo& policy : scheduler::policies()) {
      // One job at a time leaves devices unused, independently of their owner.
      if (!policy.holds_queues || policy.name == "fifo-serial") continue;
      CAPTURE(policy.name);
      for (std::uint64_t seed = first; seed < first + 6; ++seed) {
        CAPTURE(seed);
        // Jobs of others have taken all devices when the only job of the owner comes.
        Draw draw(seed);
        std::vector<store::TraceJob> jobs;
        for (int i = 0; i < 6; ++i)
          jobs.push_back(
              job("guest" + std::to_string(i), draw(0, 50), draw(1, 8), draw(4000, 20000)));
        const std::uint32_t owned = draw(1, 6);
        store::TraceJob own = job("own", 300, draw(1, owned), 1000);
        own.tenant = "owner";
        jobs.push_back(own);
        const Workload work = workload(jobs, "a:8");
        SimulationOptions how = options(std::string(policy.name), 1);
        how.queues = {{"owner", *parse_device_set("a:" + std::to_string(owned))}};
        HeadOracle oracle(work);
        const SimulationResult result = run_watched(work, how, oracle);
        CHECK(result.unfinished == 0);
        // A step of a guest that has to leave takes at most 8 s.
        CHECK(result.jobs.back().waiting_s <= 8 + 1e-6);
      }
    }
  }
}

}  // namespace es::actors::simulator
