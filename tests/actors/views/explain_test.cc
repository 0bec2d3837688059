#include "actors/views/explain.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <algorithm>

#include "actors/base/protocol/core/turn_text.h"

using namespace es;
using namespace es::actors;

namespace {

using Kinds = std::vector<std::string>;

Kinds kinds_of(const std::vector<Reason>& reasons) {
  Kinds kinds;
  for (const Reason& reason : reasons) kinds.push_back(reason.kind);
  return kinds;
}

const Reason& reason(const std::vector<Reason>& reasons, const std::string& kind) {
  const auto at = std::ranges::find(reasons, kind, &Reason::kind);
  REQUIRE_MESSAGE(at != reasons.end(), kind);
  return *at;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A node with one device for each holder; "" is a free one.
NodeView node(const std::string& name, const std::string& type,
              const std::vector<std::string>& holders) {
  NodeView made{.name = name, .alive = true};
  for (std::uint32_t i = 0; i < holders.size(); ++i)
    made.devices.push_back({.type = type, .index = i, .job = holders[i], .suspect = {}});
  return made;
}

// A job that waits for any device.
ClusterFacts waiting() {
  ClusterFacts facts;
  facts.job.id = "me-1";
  facts.job.state = "queued";
  facts.job.level = "D2";
  facts.job.last_step = 60;
  facts.job.submitted_unix_ms = 2000;
  facts.job.waiting_for = "at least 1 device";
  facts.spec.level = DeterminismLevel::kD2;
  facts.now_unix_ms = 12'000;
  return facts;
}

WorkerView worker(std::uint32_t index, std::vector<double> est_seconds) {
  WorkerView made{.node = "n", .device_type = "cpu-avx2", .device_index = index};
  made.rank_end = static_cast<std::uint32_t>(est_seconds.size());
  made.est_seconds = std::move(est_seconds);
  return made;
}

// A job that has trained without a break and has nothing that slows it down.
ClusterFacts training() {
  ClusterFacts facts = waiting();
  facts.job.state = "running";
  facts.job.waiting_for = "";
  facts.job.placement = "cpu-avx2:2";
  facts.job.step = 20;
  facts.job.samples_per_second_now = 100;
  facts.job.max_p = 4;
  facts.job.stages = {{.placement = "cpu-avx2:2", .steps = 20, .seconds = 10}};
  facts.job.workers = {worker(0, {0.1, 0.1}), worker(1, {0.1, 0.1})};
  facts.spec.max_p = 4;
  facts.spec.resources.threads = 2;
  return facts;
}

}  // namespace

TEST_SUITE("actors/views/explain") {
  TEST_CASE("a job that waits is told who holds the devices") {
    ClusterFacts facts = waiting();
    facts.nodes = {node("n1", "cpu-avx2", {"a-1", "a-1", "b-2", "claim:web"}),
                   node("n2", "cpu-avx2", {"", ""})};
    facts.nodes[0].devices[0].suspect = "computes wrongly";
    facts.nodes[1].alive = false;
    const auto reasons = reasons_of_wait(facts);
    CHECK(kinds_of(reasons) == Kinds{"missing", "held", "claimed", "suspect", "node-away"});
    CHECK(reason(reasons, "missing").text == "It needs 1 device.");
    CHECK(contains(reason(reasons, "held").text, "6 devices of type cpu-avx2: a-1 (1), b-2 (1)."));
    CHECK(contains(reason(reasons, "claimed").text, "web (1)"));
    CHECK(contains(reason(reasons, "suspect").text, "1 of the 6 devices"));
    CHECK(contains(reason(reasons, "node-away").text, "n2 (2)"));
    facts.nodes[1].alive = true;
    for (DeviceView& device : facts.nodes[1].devices) {
      device.suspect = "exited with status 127";
      device.suspect_until_unix_ms = 9000;
    }
    CHECK(contains(reason(reasons_of_wait(facts), "set-aside").text, "2 of the 6 devices"));
  }

  TEST_CASE("devices that the cluster does not have are named") {
    ClusterFacts facts = waiting();
    facts.job.waiting_for = "devices cpu-avx2:3, has cpu-avx2:1";
    facts.nodes = {node("n1", "cpu-avx2", {"me-1", "", "claim:web"}),
                   node("n2", "cpu-avx512", {"x-9"})};
    auto reasons = reasons_of_wait(facts);
    CHECK(kinds_of(reasons) == Kinds{"pinned", "claimed"});  // nothing about another type
    CHECK(contains(reason(reasons, "pinned").text, "exactly cpu-avx2:3"));
    facts.nodes[0].devices.pop_back();
    reasons = reasons_of_wait(facts);
    CHECK(kinds_of(reasons) == Kinds{"pinned", "missing"});
    CHECK(contains(reason(reasons, "missing").text, "cpu-avx2 (it has 2)"));
    facts.nodes.clear();
    CHECK(contains(reason(reasons_of_wait(facts), "missing").text, "cpu-avx2 (it has 0)"));
  }

  TEST_CASE("a stage names its number") {
    ClusterFacts facts = waiting();
    facts.spec.stages = parse_stages("cpu-avx2:1@20,cpu-scalar:1@20,cpu-avx2:2@20").value();
    facts.job.waiting_for = "devices cpu-scalar:1, has none";
    facts.nodes = {node("n1", "cpu-scalar", {"a-1"})};
    for (const std::uint64_t step : {20u, 39u}) {
      facts.job.step = step;
      CHECK(contains(reason(reasons_of_wait(facts), "stage").text, "Stage 2 of 3"));
    }
    facts.job.step = 19;
    // Together with the devices of its own.
    CHECK(reason(reasons_of_wait(facts), "stage").text ==
          "Stage 1 of 3 of its job file and the next one need exactly cpu-scalar:1.");
    facts.job.step = 60;
    CHECK(contains(reason(reasons_of_wait(facts), "stage").text, "Stage 3 of 3"));
  }

  TEST_CASE("below D2 the type on which a job began is named") {
    ClusterFacts facts = waiting();
    facts.job.level = "D1";
    facts.spec.level = DeterminismLevel::kD1;
    facts.job.waiting_for = "at least 1 device of type cpu-avx512";
    facts.nodes = {node("n1", "cpu-avx2", {""}), node("n2", "cpu-avx512", {"a-1"})};
    const auto reasons = reasons_of_wait(facts);
    CHECK(kinds_of(reasons) == Kinds{"missing", "held"});
    CHECK(contains(reason(reasons, "missing").text, "1 device of type cpu-avx512. At level D1"));
  }

  TEST_CASE("the queue, the tenant and free devices are named") {
    ClusterFacts facts = waiting();
    facts.nodes = {node("n1", "cpu-avx2", {"", "x-1"})};
    facts.spec.resources.tenant = "vision";
    facts.spec.resources.priority = -3;
    const auto other = [](const char* id, const char* state, std::uint64_t at, const char* devices,
                          const char* tenant) {
      JobView job;
      job.id = id;
      job.state = state;
      job.submitted_unix_ms = at;
      job.placement = devices;
      job.tenant = tenant;
      return job;
    };
    facts.jobs = {other("x-1", "running", 100, "cpu-avx2:1", "vision"),
                  other("y-1", "queued", 1000, "", ""), facts.job,
                  other("z-1", "queued", 3000, "", "vision")};
    const auto reasons = reasons_of_wait(facts);
    CHECK(kinds_of(reasons) == Kinds{"missing", "held", "free", "queue", "tenant"});
    CHECK(contains(reason(reasons, "queue").text,
                   "2 other jobs wait too, 1 of them submitted earlier. Its priority is -3"));
    CHECK(contains(reason(reasons, "tenant").text, "owns no devices"));
    CHECK(contains(reason(reasons, "tenant").text, "Its jobs have cpu-avx2:1 by x-1."));
    facts.queues = {{.name = "speech", .types = {{"cpu-avx2", 9, 9, 0, 0}}},
                    {.name = "vision", .types = {{"cpu-avx2", 1, 2, 2, 1}}}};
    const auto with_queues = reasons_of_wait(facts);
    CHECK(contains(reason(with_queues, "tenant").text, "which owns cpu-avx2:1."));
    CHECK(contains(reason(with_queues, "tree").text,
                   "It is in queue vision, which is entitled to cpu-avx2:1 now and has cpu-avx2:2. "
                   "Limits are reached: 2 cpu-avx2 for vision."));
    facts.queues = {{.name = "speech", .tenants = {"speech"}}};
    CHECK(contains(reason(reasons_of_wait(facts), "tree").text, "It is in no queue"));
  }

  TEST_CASE("a job that waits beside free devices has the rule that the head names") {
    ClusterFacts facts = waiting();
    facts.nodes = {node("n1", "v100", {""})};
    facts.jobs = {facts.job};
    CHECK(contains(reason(reasons_of_wait(facts), "free").text,
                   "since the last decision of the head, which decides after every such change"));
    facts.jobs[0].waiting_for = std::string(kTurn) + "the devices of job x-1, which is to end";
    CHECK(reason(reasons_of_wait(facts), "free").text ==
          "Enough devices are free, and it waits for the devices of job x-1, which is to end.");
    // The devices of a node that will be gone are given to no job.
    facts.jobs = {facts.job};
    facts.nodes[0].gone_unix_ms = 99'000;
    CHECK(kinds_of(reasons_of_wait(facts)) == Kinds{"missing", "draining"});
  }

  TEST_CASE("below D2 the devices have to be of one type") {
    ClusterFacts facts = waiting();
    facts.spec.resources.min_devices = 2;
    facts.nodes = {node("n1", "v100", {""}), node("n2", "t4", {""})};
    CHECK(kinds_of(reasons_of_wait(facts)) == Kinds{"missing", "free"});
    facts.spec.level = DeterminismLevel::kD1;
    CHECK(kinds_of(reasons_of_wait(facts)) == Kinds{"missing"});
  }

  TEST_CASE("a job with a deadline or a budget may wait for cheap devices") {
    ClusterFacts facts = waiting();
    facts.nodes = {node("n1", "v100", {""}), node("n2", "t4", {"x-1"})};
    CHECK(kinds_of(reasons_of_wait(facts)) == Kinds{"missing", "held", "free"});
    facts.jobs = {facts.job};
    facts.jobs[0].waiting_for = std::string(kTurn) + "devices of type t4";
    facts.spec.resources.deadline_seconds = 600;
    auto reasons = reasons_of_wait(facts);
    CHECK(kinds_of(reasons) == Kinds{"missing", "held", "free", "price"});
    CHECK(contains(reason(reasons, "price").text, "It has a deadline, so a head with prices"));
    CHECK(contains(reason(reasons, "price").advice, "`esctl scale me-1 TYPE:COUNT`"));
    facts.job.budget = 8;  // it may be another one than that of the job file
    CHECK(contains(reason(reasons_of_wait(facts), "price").text, "It has a budget"));
    // Chosen devices are taken at any price.
    facts.jobs.clear();
    facts.job.waiting_for = "devices v100:1, has none";
    CHECK(kinds_of(reasons_of_wait(facts)) == Kinds{"pinned", "free"});
    // Without free devices the price is not what it waits for.
    facts.job.waiting_for = "at least 1 device";
    facts.nodes = {node("n1", "t4", {"x-1"})};
    CHECK(kinds_of(reasons_of_wait(facts)) == Kinds{"missing", "held"});
  }

  TEST_CASE("a job that is over, paused, starting or without its state says so") {
    ClusterFacts facts = waiting();
    const auto kinds = [&](const char* state, const char* waiting_for) {
      facts.job.state = state;
      facts.job.waiting_for = waiting_for;
      return kinds_of(reasons_of_wait(facts));
    };
    CHECK(kinds("finished", "") == Kinds{"over"});
    CHECK(kinds("paused", "") == Kinds{"paused"});
    CHECK(kinds("paused", "node n2, which holds its newest saved state") ==
          Kinds{"paused", "saved-state"});
    CHECK(kinds("queued", "node n2, which holds its newest saved state") == Kinds{"saved-state"});
    CHECK(kinds("starting", "its worker processes to start") == Kinds{"starting"});
    CHECK(kinds("queued", "") == Kinds{"free"});
    facts.job.checkpoint = "/c/step-3";
    facts.job.state = "failed";
    CHECK(contains(reasons_of_wait(facts)[0].advice, "/c/step-3"));
    facts.job.error = "no room";
    CHECK(contains(explain(facts).summary, "failed at step 0 of 60: no room."));
  }

  TEST_CASE("a job that nothing slows down has no reason") {
    const ClusterFacts facts = training();
    CHECK(kinds_of(reasons_of_speed(facts)) == Kinds{});
    CHECK(explanation_text(explain(facts)) ==
          "Job me-1 trains on cpu-avx2:2, at step 20 of 60, 100.0 samples/s.\n"
          "The head knows of nothing that holds it up.\n");
  }

  TEST_CASE("slow devices, data, threads and audits are named") {
    ClusterFacts facts = training();
    facts.job.workers[1].slowness = 2.5;
    facts.job.workers[1].est_seconds = {0.2, 0.2};
    facts.job.data_wait_share = 0.3;
    facts.spec.resources.threads = 1;
    facts.spec.audit.every_steps = 1;
    const auto reasons = reasons_of_speed(facts);
    CHECK(kinds_of(reasons) == Kinds{"stragglers", "imbalance", "data", "audits", "threads"});
    CHECK(contains(reason(reasons, "stragglers").text, "n/cpu-avx2:1 is 2.5 times slower"));
    // One device computes 0.4 s and the other one 0.2 s: a quarter of the device time is lost.
    CHECK(contains(reason(reasons, "imbalance").text, "wait 25 % of a step"));
    CHECK(contains(reason(reasons, "imbalance").text, "(400.0 ms)"));
    CHECK(contains(reason(reasons, "data").text, "30 %"));
  }

  TEST_CASE("before the first report nothing is said about imbalance") {
    ClusterFacts facts = training();
    facts.job.workers[1].est_seconds = {};
    facts.job.workers[1].local_step_seconds = 0;
    CHECK(kinds_of(reasons_of_speed(facts)) == Kinds{});
  }

  TEST_CASE("what more devices would bring, and what a step has beside its computation") {
    ClusterFacts facts = training();
    const auto plan = [](std::uint32_t devices, double seconds, bool runs) {
      PlanView made{.parts = {{{"cpu-avx2"}, devices, 4 / devices}}, .seconds_per_step = seconds};
      made.runs = runs;
      made.measured = true;
      return made;
    };
    facts.plans = PlansView{.plans = {plan(4, 0.1, false), plan(2, 0.2, true)}};
    facts.plans->pace_seconds = 0.25;
    const auto reasons = reasons_of_speed(facts);
    CHECK(kinds_of(reasons) == Kinds{"more-devices", "exchange"});
    CHECK(
        contains(reason(reasons, "more-devices").text,
                 "It has 2 devices; on cpu-avx2:4 a step would take 100.0 ms instead of 200.0 ms, "
                 "2.0 times as fast."));
    CHECK(contains(reason(reasons, "exchange").text, "Of a step of 250.0 ms, 20 %"));
    CHECK_FALSE(contains(reason(reasons, "exchange").text, "ring"));
    // Three nodes with one, one and two of four ranks: of each bucket two sums go to the owner, and
    // its sum to two others.
    ClusterFacts wide = facts;
    wide.job.workers.push_back(wide.job.workers[1]);
    for (std::uint32_t w = 0; w < 3; ++w) {
      wide.job.workers[w].node = "n" + std::to_string(w);
      wide.job.workers[w].rank_begin = w;
      wide.job.workers[w].rank_end = w + (w == 2 ? 2 : 1);
    }
    CHECK(contains(reason(reasons_of_speed(wide), "exchange").text,
                   "Between its 3 nodes it sends 1.00 times the bytes of a ring all-reduce."));
    // Assumed speeds say how fast types are beside each other, and nothing about milliseconds.
    for (PlanView& each : facts.plans->plans) each.measured = false;
    CHECK(
        contains(reason(reasons_of_speed(facts), "more-devices").text,
                 "on cpu-avx2:4 a step would be 2.0 times as fast, if its speeds are as assumed."));
    facts.plans->plans = {plan(1, 0.1, false), plan(2, 0.2, true)};
    CHECK(contains(reason(reasons_of_speed(facts), "more-devices").advice,
                   "cpu-avx2:1` moves it there."));
    facts.plans->plans = {plan(2, 0.2, true)};  // the best one already
    facts.plans->pace_seconds = 0.2;
    CHECK(kinds_of(reasons_of_speed(facts)) == Kinds{});
  }

  TEST_CASE("the time since the submission is divided by cause") {
    ClusterFacts facts = training();  // submitted 10 s ago
    facts.job.stages = {{.placement = "a:1", .steps = 1, .seconds = 4, .rescale_seconds = 1},
                        {.placement = "a:2", .steps = 1, .seconds = 2, .rescale_seconds = 0.5}};
    const auto reasons = reasons_of_speed(facts);
    CHECK(kinds_of(reasons) == Kinds{"pauses", "waits"});
    CHECK(contains(reason(reasons, "pauses").text, "Of the 10 s since its submission, 15 %"));
    CHECK(contains(reason(reasons, "waits").text, "60 % were training and 25 %"));
  }

  TEST_CASE("a claim that takes devices from a job is named") {
    ClusterFacts facts = training();
    facts.claims = {{.name = "web", .type = "cpu-avx2", .count = 1, .waits = {{"me-1", 1, ""}}}};
    CHECK(contains(reason(reasons_of_wait(facts), "claimed").text,
                   "Claim web takes 1 device of type cpu-avx2 from it."));
  }

  TEST_CASE("as JSON, with null for no advice") {
    ClusterFacts facts = training();
    facts.job.warning = "the disk is full";
    const auto json = nlohmann::json::parse(explanation_json(facts.job, explain(facts)));
    CHECK(json.at("job") == "me-1");
    CHECK(json.at("state") == "running");
    REQUIRE(json.at("reasons").size() == 1);
    CHECK(json.at("reasons")[0].at("kind") == "warning");
    CHECK(json.at("reasons")[0].at("advice").is_null());
  }
}
