#include "actors/head/cluster_scheduler/core/cluster_core.h"

#include <doctest/doctest.h>

#include <memory>

#include "scheduler/policy/greedy/greedy.h"
#include "scheduler/policy/registry.h"

namespace es::actors {
namespace {

using namespace cluster;
using namespace protocol;
using Effects = std::vector<Effect>;

DeviceSet devices(const char* text) {
  return *parse_device_set(text);
}

// The devices "n/a:0", "n/a:1", ... of one node, in ascending order.
std::vector<DeviceId> ids(const std::string& node, const char* type, std::uint32_t count) {
  std::vector<DeviceId> result;
  for (std::uint32_t i = 0; i < count; ++i) result.push_back({node, {type}, i});
  return result;
}

// A policy that takes all devices of the only job away, except those of one type. It gives the job
// all free devices of this type. The type alternates.
class Mover : public scheduler::Policy {
 public:
  explicit Mover(const DeviceType& turn) : turn_(turn) {}
  scheduler::Decisions decide(const scheduler::ClusterView& view) override {
    scheduler::Decisions decisions;
    for (std::size_t slot = 0; slot < view.jobs.size(); ++slot) {
      const scheduler::JobView& job = view.jobs[slot];
      if (job.id.empty() || job.pinned) continue;
      const std::uint32_t free = view.free.count_of(turn_);
      if (!job.held.empty() && job.held.count_of(turn_) == 0)
        decisions.shrinks.push_back({slot, job.held});
      else if (job.held.empty() && free > 0)
        decisions.grants.push_back({slot, {{{turn_, std::min(free, job.max_devices)}}}});
    }
    return decisions;
  }

 private:
  const DeviceType& turn_;
};

// A policy that gives every job one device at most, or two to the job "wide", and shows what it
// sees.
class Watcher : public scheduler::Policy {
 public:
  explicit Watcher(scheduler::ClusterView& seen) : seen_(seen) {}
  bool expects_sync() const override { return true; }
  scheduler::Decisions decide(const scheduler::ClusterView& view) override {
    seen_ = view;
    scheduler::Decisions decisions;
    std::uint32_t free = view.free.total();
    for (std::size_t slot = 0; slot < view.jobs.size(); ++slot) {
      const scheduler::JobView& job = view.jobs[slot];
      const std::uint32_t wants = job.id == "wide" ? 2 : 1;
      if (job.id.empty() || !job.held.empty() || free < wants) continue;
      decisions.grants.push_back({slot, {{{{"a"}, wants}}}});
      free -= wants;
    }
    return decisions;
  }

 private:
  scheduler::ClusterView& seen_;
};

double expected_sync_s(const scheduler::ClusterView& view, const JobId& id) {
  for (const scheduler::JobView& job : view.jobs)
    if (job.id == id) return job.expected_sync_s;
  return -1;
}

// A core whose invariants are checked after every event.
struct Cluster {
  Effects on(const Event& event) {
    Effects effects = core.on(event);
    core.check_invariants();
    return effects;
  }
  void admit(const JobId& job, std::uint32_t min_devices = 1,
             DeterminismLevel level = DeterminismLevel::kD2, std::uint32_t max_p = 8) {
    CHECK(on(JobAdmitted{.job = job,
                         .resources = {.min_devices = min_devices},
                         .level = level,
                         .max_p = max_p})
              .empty());
  }
  Effects pin(const JobId& job, const char* text) {
    return on(FromJob{job, Demand{.exact = devices(text)}});
  }
  Effects propose(const JobId& job, std::vector<scheduler::Proposal> proposals,
                  std::uint64_t sequence) {
    return on(FromJob{job, Demand{.proposals = std::move(proposals), .sequence = sequence}});
  }

  Limits limits{};
  ClusterCore core{std::make_unique<scheduler::GreedyPolicy>(), limits};
};

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/cluster_core") {
  TEST_CASE(
      "a job is given nothing before its first demand, then exactly the devices that it pinned") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.admit("j");
    CHECK(c.pin("j", "a:3") == Effects{ToJob{"j", Allocation{1, 0, ids("n", "a", 3)}}});
    CHECK(c.pin("j", "a:3").empty());
  }

  TEST_CASE("after a restart of the head a device stays with the job whose process runs on it") {
    Cluster c;
    c.admit("j");
    c.admit("k");
    const DeviceId kept{"n", {"a"}, 1};
    CHECK(c.on(NodeJoined{"n", devices("a:2"), {{"j", kept}, {"unknown", {"n", {"a"}, 0}}}}) ==
          Effects{ToJob{"j", Allocation{1, 0, {kept}}}});
    CHECK(c.pin("k", "a:2").empty());  // one of them is taken
    CHECK(c.core.held("j").size() == 1);
  }

  TEST_CASE("a demand waits for a node that joins later when the devices exist but are taken") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.admit("j");
    c.admit("k");
    c.pin("j", "a:2");
    CHECK(c.pin("k", "a:2").empty());
    CHECK(c.on(NodeJoined{"o", devices("a:2")}) ==
          Effects{ToJob{"k", Allocation{1, 0, ids("o", "a", 2)}}});
  }

  TEST_CASE("a demand for more than exists is refused with numbers, and changes nothing") {
    Cluster c;
    c.on(NodeJoined{"n", devices("cpu-avx512:4+cpu-avx2:1")});
    c.admit("j");
    const Effects held = c.pin("j", "cpu-avx512:4");
    REQUIRE(held.size() == 1);
    CHECK(c.pin("j", "cpu-avx512:5+cpu-avx2:1") ==
          Effects{ToJob{"j", DemandRefused{"needs cpu-avx512:5, the cluster has cpu-avx512:4"}}});
    CHECK(c.pin("j", "cpu-avx512:5+gpu:2") ==
          Effects{ToJob{
              "j", DemandRefused{
                       "needs cpu-avx512:5 and gpu:2, the cluster has cpu-avx512:4 and gpu:0"}}});
    CHECK(c.core.held("j").size() == 4);
  }

  TEST_CASE("a job whose minimum does not exist is refused") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2+b:1")});
    c.admit("mixed", 4);
    c.admit("one type", 3, DeterminismLevel::kD1);
    CHECK(
        c.propose("mixed", {}, 0) ==
        Effects{ToJob{
            "mixed", DemandRefused{"needs min_devices = 4 devices, the cluster has a:2 and b:1"}}});
    CHECK(c.propose("one type", {}, 0) ==
          Effects{
              ToJob{"one type",
                    DemandRefused{"needs min_devices = 3 devices of one type, the cluster has a:2 "
                                  "and b:1"}}});
  }

  TEST_CASE("in a cluster that may grow a job waits for what does not exist, and gets it") {
    Cluster c{{.may_grow = true}};
    c.on(NodeJoined{"n", devices("a:1")});
    c.admit("pinned");
    c.admit("many", 3);
    CHECK(c.pin("pinned", "a:2") == Effects{});
    CHECK(c.propose("many", {}, 0) == Effects{});
    const Effects granted = c.on(NodeJoined{"o", devices("a:1")});
    REQUIRE(granted.size() == 1);
    CHECK(std::get<Allocation>(granted[0].message).devices.size() == 2);
    CHECK(c.core.held("pinned").size() == 2);
  }

  TEST_CASE("a job waits for the first device of a cluster whose head has none") {
    Cluster c;
    c.on(NodeJoined{"head", {}});
    c.admit("any");
    c.admit("exact");
    CHECK(c.propose("any", {}, 0) == Effects{});
    CHECK(c.pin("exact", "a:2") == Effects{});
    c.on(NodeJoined{"n", devices("a:1")});
    c.admit("later");
    CHECK(c.pin("later", "a:2") ==
          Effects{ToJob{"later", DemandRefused{"needs a:2, the cluster has a:1"}}});
  }

  TEST_CASE("a job whose minimum is on a lost node waits for this node") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1")});
    c.on(NodeLost{"n"});
    c.admit("j");
    CHECK(c.propose("j", {}, 0).empty());
    CHECK(c.on(NodeJoined{"n", devices("a:1")}) ==
          Effects{ToJob{"j", Allocation{1, 0, ids("n", "a", 1)}}});
  }

  TEST_CASE("an elastic job starts with its minimum and grows by its proposals") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.admit("j");
    CHECK(c.propose("j", {{{"a"}, 3, 3.0}}, 0) ==
          Effects{ToJob{"j", Allocation{1, 0, ids("n", "a", 1)}}});
    CHECK(c.propose("j", {{{"a"}, 2, 3.0}}, 1) ==
          Effects{ToJob{"j", Allocation{2, 0, ids("n", "a", 3)}}});
  }

  TEST_CASE("proposals relative to an older allocation are void") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.admit("j");
    c.propose("j", {{{"a"}, 3, 3.0}}, 0);
    CHECK(c.propose("j", {{{"a"}, 2, 3.0}}, 0).empty());
  }

  TEST_CASE("a proposal is void once the job's devices change, until the job proposes anew") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.admit("j");
    c.propose("j", {}, 0);
    c.propose("j", {{{"a"}, 2, 3.0}}, 1);  // cannot be granted: one device is free
    CHECK(c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 0}}}) ==
          Effects{ToJob{"j", Allocation{2, 1, ids("n", "a", 1)}}});
    CHECK(c.on(NodeJoined{"o", devices("a:4")}).empty());
  }

  TEST_CASE("a device that a job gives back is not granted to it again on an older proposal") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.admit("j");
    c.propose("j", {}, 0);
    c.propose("j", {{{"a"}, 1, 2.0}}, 1);
    c.propose("j", {{{"a"}, 1, 1.5}}, 2);  // nothing is free
    CHECK(c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 1}}}) ==
          Effects{ToJob{"j", Allocation{3, 1, ids("n", "a", 1)}}});
  }

  TEST_CASE("devices that a job refuses are not granted to it until it withdraws the refusal") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.admit("j");
    c.propose("j", {}, 0);
    CHECK(c.on(FromJob{"j", JobRefusals{{{devices("a:1"), {{"a"}}, {}}}}}).empty());
    CHECK(c.propose("j", {{{"a"}, 2, 3.0}}, 1).empty());
    CHECK(c.on(FromJob{"j", JobRefusals{{}}}).empty());  // its proposals are void
    CHECK(c.propose("j", {{{"a"}, 2, 3.0}}, 1) ==
          Effects{ToJob{"j", Allocation{2, 0, ids("n", "a", 3)}}});
  }

  TEST_CASE("a refusal does not keep a job from its minimum") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.admit("j", 2);
    c.on(FromJob{
        "j", JobRefusals{{{devices("a:1"), {{"a"}}, {}}}}});  // measured where its owner had put it
    CHECK(c.propose("j", {}, 0) == Effects{ToJob{"j", Allocation{1, 0, ids("n", "a", 2)}}});
  }

  TEST_CASE("a device is granted to another job only after its release") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.admit("j");
    c.propose("j", {}, 0);
    c.propose("j", {{{"a"}, 1, 2.0}}, 1);
    c.admit("k");
    CHECK(c.propose("k", {}, 0) == Effects{ToJob{"j", Allocation{3, 0, ids("n", "a", 1)}}});
    CHECK(c.core.held("k").empty());
    CHECK(c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 1}}}) ==
          Effects{ToJob{"k", Allocation{1, 0, {{"n", {"a"}, 1}}}}});
  }

  TEST_CASE(
      "a job owns at most twice its max_p: it gives devices of two changes back before a third "
      "one") {
    DeviceType turn{"a"};
    ClusterCore core(std::make_unique<Mover>(turn));
    const auto on = [&](const Event& event) {
      Effects effects = core.on(event);
      core.check_invariants();
      return effects;
    };
    on(NodeJoined{"n", devices("a:2+b:2+c:2")});
    on(JobAdmitted{.job = "j", .max_p = 2});
    on(FromJob{"j", Demand{}});
    CHECK(core.held("j").size() == 2);
    // This policy takes all devices back, and may give others.
    const auto move_to = [&](const char* type) {
      turn = {type};
      on(ClaimEnded{"none"});
      return on(ClaimEnded{"none"});
    };
    CHECK(move_to("b") == Effects{ToJob{"j", Allocation{3, 0, ids("n", "b", 2)}}});
    CHECK(move_to("c").empty());
    CHECK(core.held("j").empty());
    CHECK(on(FromJob{"j", DeviceReleased{{"n", {"a"}, 0}}}).empty());
    CHECK(on(FromJob{"j", DeviceReleased{{"n", {"a"}, 1}}}) ==
          Effects{ToJob{"j", Allocation{5, 2, ids("n", "c", 2)}}});
  }

  TEST_CASE("a job that pins fewer devices chooses itself which ones it gives back") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:3")});
    c.admit("j");
    c.pin("j", "a:3");
    CHECK(c.pin("j", "a:2").empty());
    CHECK(c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 0}}}) ==
          Effects{ToJob{"j", Allocation{2, 1, {{"n", {"a"}, 1}, {"n", {"a"}, 2}}}}});
  }

  TEST_CASE("a demand without exact devices removes the pin") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.admit("j");
    c.pin("j", "a:1");
    CHECK(c.propose("j", {{{"a"}, 3, 4.0}}, 1) ==
          Effects{ToJob{"j", Allocation{2, 0, ids("n", "a", 4)}}});
  }

  TEST_CASE("a lost node takes its devices from the allocations") {
    Cluster c;
    c.on(NodeJoined{"m", devices("a:1")});
    c.on(NodeJoined{"n", devices("a:2")});
    c.admit("j");
    c.pin("j", "a:3");
    CHECK(c.on(NodeLost{"n"}) == Effects{ToJob{"j", Allocation{2, 0, ids("m", "a", 1)}}});
    CHECK(c.on(NodeJoined{"n", devices("a:2")}).empty());  // processes may still run there
    CHECK(c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 0}}}).empty());
    CHECK(
        c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 1}}}) ==
        Effects{ToJob{"j", Allocation{3, 2, {{"m", {"a"}, 0}, {"n", {"a"}, 0}, {"n", {"a"}, 1}}}}});
  }

  TEST_CASE("a running job that asks for extras while its minimum is lost is not refused") {
    Cluster c;
    c.on(NodeJoined{"m", devices("a:1")});
    c.on(NodeJoined{"n", devices("a:1")});
    c.admit("j", 2);
    c.propose("j", {}, 0);
    c.on(NodeLost{"n"});
    CHECK(c.propose("j", {}, 2).empty());
  }

  TEST_CASE("devices of a job that ended are free at once") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.admit("j");
    c.admit("k");
    c.pin("j", "a:2");
    c.pin("k", "a:2");
    CHECK(c.on(FromJob{"j", JobEnded{}}) ==
          Effects{ToJob{"k", Allocation{1, 0, ids("n", "a", 2)}}});
  }

  TEST_CASE("level D1 limits an elastic job to one type") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1+b:4")});
    c.admit("j", 2, DeterminismLevel::kD1);
    CHECK(c.propose("j", {{{"a"}, 1, 9.0}}, 0) ==
          Effects{ToJob{"j", Allocation{1, 0, ids("n", "b", 2)}}});
  }

  TEST_CASE("a job that is bound to a type is given no other type from then on") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1+b:4")});
    c.admit("j", 1, DeterminismLevel::kD1);
    c.pin("j", "a:1");
    // Its pin is lifted: b is free, and would be faster.
    CHECK(c.on(FromJob{"j", BoundToType{{"a"}}}).empty());
    CHECK(c.propose("j", {{{"b"}, 4, 9.0}}, 1).empty());
    CHECK(c.on(ClaimMade{"other", {"a"}, 1}) == Effects{ToJob{"j", Allocation{2, 0, {}, true}}});
    c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 0}}});
    CHECK(c.propose("j", {}, 2).empty());
    CHECK(c.core.held("j").empty());
    CHECK(c.on(ClaimEnded{"other"}) == Effects{ToJob{"j", Allocation{3, 1, ids("n", "a", 1)}}});
  }

  TEST_CASE("types that a job does not allow are given only when it asks for them by name") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1+b:1")});
    c.on(JobAdmitted{.job = "j", .resources = {.device_types = {{"b"}}}, .max_p = 4});
    CHECK(c.propose("j", {}, 0) == Effects{ToJob{"j", Allocation{1, 0, ids("n", "b", 1)}}});
    CHECK(c.pin("j", "a:1+b:1").size() == 1);
  }

  TEST_CASE("before the first node has joined, no demand is refused and the job waits") {
    Cluster c;
    c.admit("j");
    CHECK(c.pin("j", "a:2").empty());
    CHECK(c.on(NodeJoined{"n", devices("a:1")}).empty());
    CHECK(c.on(NodeJoined{"o", devices("a:1")}) ==
          Effects{ToJob{"j", Allocation{1, 0, {{"n", {"a"}, 0}, {"o", {"a"}, 0}}}}});
    CHECK(c.core.existing_devices() == devices("a:2"));
  }

  TEST_CASE(
      "a restarted head does not judge a granted demand again, because its nodes may still come") {
    Cluster c;
    c.on(NodeJoined{"n", devices("b:1")});
    CHECK(c.on(JobAdmitted{.job = "j", .max_p = 4, .restored = true}).empty());
    CHECK(c.pin("j", "a:1").empty());
    CHECK(c.pin("j", "a:2") ==
          Effects{ToJob{"j", DemandRefused{"needs a:2, the cluster has a:0"}}});
    CHECK(c.on(NodeJoined{"o", devices("a:1")}) ==
          Effects{ToJob{"j", Allocation{1, 0, ids("o", "a", 1)}}});
  }

  TEST_CASE("events that do not fit the state are counted and change nothing") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1")});
    c.admit("j");
    c.pin("j", "a:1");
    CHECK(c.core.ignored_events() == 0);
    CHECK(c.on(JobAdmitted{.job = "j"}).empty());
    CHECK(c.on(NodeLost{"unknown"}).empty());
    CHECK(c.pin("unknown", "a:1").empty());
    CHECK(c.on(FromJob{"unknown", JobEnded{}}).empty());
    CHECK(c.on(FromJob{"unknown", DeviceReleased{{"n", {"a"}, 0}}}).empty());
    CHECK(c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 5}}}).empty());
    CHECK(c.core.ignored_events() == 6);
    CHECK(c.core.held("j").size() == 1);
  }

  TEST_CASE("a claim takes free devices at once, and others as soon as jobs have left them") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.admit("j");
    c.admit("k");
    c.propose("j", {}, 0);
    c.propose("j", {{{"a"}, 1, 2.0}}, 1);  // This job holds two devices.
    c.propose("k", {}, 0);                 // This job holds one device.
    const ClaimMade serving{"serving", {"a"}, 3};
    REQUIRE(c.core.check_claim(serving).ok());
    // One device is free. The others are taken from what jobs hold beyond their minima, and then
    // from the job that was submitted last.
    CHECK(c.on(serving).size() == 2);
    CHECK(c.core.held(claim_owner("serving")).size() == 1);
    CHECK(c.core.held("j").size() == 1);
    CHECK(c.core.held("k").empty());
    c.on(FromJob{"k", DeviceReleased{{"n", {"a"}, 2}}});
    c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 1}}});
    CHECK(c.core.held(claim_owner("serving")).size() == 3);
    CHECK(c.core.held("k").empty());
    REQUIRE(c.core.check_claim_end("serving").ok());
    CHECK(c.on(ClaimEnded{"serving"}).size() >= 1);
    CHECK(c.core.held("k").size() == 1);
    CHECK(c.core.check_claim_end("serving").error().kind == ErrorKind::kNotFound);
  }

  TEST_CASE("a claim does not take the minimum of a job that may not be suspended") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:3")});
    c.on(JobAdmitted{.job = "j",
                     .resources = {.min_devices = 2, .suspendable = false},
                     .level = DeterminismLevel::kD2,
                     .max_p = 8});
    c.propose("j", {}, 0);
    c.propose("j", {{{"a"}, 1, 2.0}}, 1);
    CHECK(c.core.held("j").size() == 3);
    c.on(ClaimMade{"serving", {"a"}, 3});
    CHECK(c.core.held("j").size() == 2);
    c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 2}}});
    CHECK(c.core.claims().at(0).devices == 1);
    c.pin("j", "a:2");
    c.on(ClaimResized{"serving", 2});
    CHECK(c.core.held("j").size() == 2);
    c.on(FromJob{"j", JobEnded{}});
    CHECK(c.core.claims().at(0).devices == 2);
  }

  TEST_CASE("allocations tell what devices cost, on spot nodes too") {
    ClusterCore core(*scheduler::make_policy("elastic-srtf"),
                     {.prices = {.per_hour = {{{"a"}, 3}}, .spot_per_hour = {{{"a"}, 1}}}});
    core.on(NodeJoined{"n", devices("a:1+b:1"), {}, {}});
    core.on(NodeJoined{"spot", devices("a:1"), {}, {.spot = true}});
    core.on(JobAdmitted{.job = "j", .level = DeterminismLevel::kD2, .max_p = 8});
    const Effects effects = core.on(FromJob{"j", Demand{.exact = devices("a:2+b:1")}});
    const auto& allocation = std::get<Allocation>(effects.at(0).message);
    CHECK(allocation.devices ==
          std::vector<DeviceId>{{"n", {"a"}, 0}, {"n", {"b"}, 0}, {"spot", {"a"}, 0}});
    CHECK(allocation.prices_per_hour == std::vector<double>{3, 0, 1});
  }

  TEST_CASE("a job with a deadline is given cheap devices, and fast ones when it has waited") {
    ClusterCore core(*scheduler::make_policy("elastic-srtf"),
                     {.prices = {.per_hour = {{{"fast"}, 50}, {{"slow"}, 1}}}});
    core.on(NodeJoined{"n", devices("fast:1+slow:1")});
    const auto admit = [&](const JobId& job, double deadline_s, double now_s) {
      core.on(JobAdmitted{.job = job,
                          .resources = {.deadline_seconds = deadline_s},
                          .level = DeterminismLevel::kD2,
                          .max_p = 1},
              now_s);
      Demand demand;
      demand.progress = JobProgress{.total_steps = 100, .remaining_steps = 100};
      demand.progress->capabilities = {{{"fast"}, 10, true}, {{"slow"}, 1, true}};
      core.on(FromJob{job, demand}, now_s);
    };
    admit("j", 1000, 0);
    CHECK(core.held("j") == std::set<DeviceId>{{"n", {"slow"}, 0}});
    // The slow device is taken, and the next job may wait for it.
    admit("k", 1000, 0);
    CHECK(core.held("k").empty());
    CHECK(core.decide_again_s() < 1000);
    core.decide(500);
    CHECK(core.held("k").empty());
    core.decide(950);
    CHECK(core.held("k") == std::set<DeviceId>{{"n", {"fast"}, 0}});
  }

  TEST_CASE("a job is in the queue of its file or of its tenant, and keeps the limits of it") {
    ClusterCore core(*scheduler::make_policy("elastic-srtf"),
                     {.queues = *scheduler::completed_queues(
                          {{.name = "vision", .guarantee = devices("a:1"), .borrow = {{{"a"}, 1}}},
                           {"default", {}}})});
    core.on(NodeJoined{"n", devices("a:4")});
    core.on(JobAdmitted{
        .job = "j", .resources = {.tenant = "vision"}, .level = DeterminismLevel::kD2, .max_p = 8});
    core.on(FromJob{"j", Demand{}});
    core.on(JobAdmitted{.job = "k",
                        .resources = {.device_types = {{"a"}}, .queue = "vision"},
                        .level = DeterminismLevel::kD2,
                        .max_p = 8});
    // Its queue may have two devices, and the demand of a user for more can never be met.
    const Effects refused = core.on(FromJob{"k", Demand{.exact = devices("a:3")}});
    REQUIRE(refused.size() == 1);
    CHECK(std::get<DemandRefused>(refused[0].message).reason ==
          "needs a:3, and queue vision may have at most 2");
    const auto queues = core.queues();
    REQUIRE(queues.size() == 2);
    CHECK(queues[0].running == 1);
    CHECK(queues[0].types.at(0).used <= 2);
    CHECK(queues[1].running + queues[1].waiting == 0);
    core.on(JobAdmitted{.job = "l", .level = DeterminismLevel::kD2, .max_p = 8});
    core.on(FromJob{"l", Demand{}});
    CHECK(core.queues()[1].running == 1);
  }

  TEST_CASE("with a half-life queues are ordered by what they have used, also after a restart") {
    const Limits limits{
        .queues = *scheduler::completed_queues({{.name = "x", .guarantee = {}, .weight = 1},
                                                {.name = "y", .guarantee = {}, .weight = 1}}),
        .share_half_life_s = 1000};
    const auto admit = [](ClusterCore& core, const char* job, const char* queue, double now_s) {
      core.on(JobAdmitted{.job = job,
                          .resources = {.queue = queue},
                          .level = DeterminismLevel::kD2,
                          .max_p = 1},
              now_s);
      return core.on(FromJob{job, Demand{}}, now_s);
    };
    ClusterCore core(*scheduler::make_policy("fifo-backfill"), limits);
    core.on(NodeJoined{"n", devices("a:1")}, 0);
    admit(core, "x1", "x", 0);
    CHECK(core.held("x1").size() == 1);
    CHECK(core.decide_again_s() == doctest::Approx(10));
    core.decide(10);
    core.decide(500);
    const auto usage = core.take_usage();
    REQUIRE(usage.has_value());
    CHECK_FALSE(core.take_usage().has_value());
    CHECK(usage->at(0).first == "x");
    CHECK(usage->at(0).second > 400);
    CHECK(usage->at(0).second <= 500);
    CHECK(usage->at(1).second == 0);
    // The next device goes to the queue that has used less, although its job came later.
    admit(core, "x2", "x", 500);
    admit(core, "y1", "y", 501);
    core.on(FromJob{"x1", JobEnded{}}, 502);
    CHECK(core.held("y1").size() == 1);
    CHECK(core.held("x2").empty());

    ClusterCore next(*scheduler::make_policy("fifo-backfill"), limits);
    next.on(UsageRestored{"x", 400, 1000}, 0);
    CHECK(next.share_of("x")->device_seconds == doctest::Approx(200));
    admit(next, "x3", "x", 0);
    admit(next, "y3", "y", 0);
    next.on(NodeJoined{"n", devices("a:1")}, 0);
    CHECK(next.held("y3").size() == 1);
    CHECK_FALSE(ClusterCore(*scheduler::make_policy("srtf")).share_of("x").has_value());
  }

  TEST_CASE("a claim is refused if it exceeds the devices, its quota, or uses a name twice") {
    ClusterCore core(std::make_unique<scheduler::GreedyPolicy>(),
                     {.queues = {}, .claims = devices("a:2")});
    core.on(NodeJoined{"n", devices("a:3+b:1")});
    const auto why = [&](const ClaimMade& claim) {
      return core.check_claim(claim).error().message;
    };
    CHECK(why({"x", {"a"}, 4}) ==
          "claim \"x\": 4 of a: the cluster has 3, and other claims have 0");
    CHECK(why({"x", {"a"}, 3}) ==
          "claim \"x\": 3 of a: the quota of claims is 2, and other claims have 0");
    CHECK(why({"x", {"b"}, 1}).find("quota of claims is 0") != std::string::npos);
    REQUIRE(core.check_claim({"x", {"a"}, 1}).ok());
    core.on(ClaimMade{"x", {"a"}, 1});
    CHECK(why({"x", {"a"}, 1}).find("of this name already") != std::string::npos);
    CHECK(why({"y", {"a"}, 2}).find("other claims have 1") != std::string::npos);
    core.check_invariants();
  }

  TEST_CASE("jobs leave a vacated node at its time, and are given no more of its devices before") {
    Cluster c;
    c.on(NodeJoined{"m", devices("a:1")});
    c.admit("j");
    c.propose("j", {}, 0);
    c.on(NodeVacated{"m", 100});
    CHECK(c.core.decide_again_s() == 100);
    c.on(NodeJoined{"n", devices("a:1")});
    c.admit("k");
    c.propose("k", {}, 0);
    CHECK(c.core.held("j") == std::set<DeviceId>{{"m", {"a"}, 0}});
    CHECK(c.core.held("k") == std::set<DeviceId>{{"n", {"a"}, 0}});
    c.on(FromJob{"k", JobEnded{}});
    // The job has to leave, and the other device is granted to it.
    const Effects left = c.core.decide(100);
    REQUIRE(left.size() == 1);
    CHECK(std::get<Allocation>(left[0].message).urgent);
    CHECK(c.core.held("j") == std::set<DeviceId>{{"n", {"a"}, 0}});
    c.core.on(FromJob{"j", DeviceReleased{{"m", {"a"}, 0}}}, 101);
    CHECK(c.core.existing_devices() == devices("a:1"));
    // A hello of the node changes nothing, and NodeStays does.
    c.core.on(NodeJoined{"m", devices("a:1")}, 102);
    CHECK(c.core.existing_devices() == devices("a:1"));
    c.core.on(NodeStays{"m"}, 103);
    CHECK(c.core.existing_devices() == devices("a:2"));
    c.core.check_invariants();
    CHECK(c.core.ignored_events() == 0);
    c.on(NodeStays{"m"});
    CHECK(c.core.ignored_events() == 1);
  }

  TEST_CASE("a vacated node that was lost and comes back is emptied again") {
    Cluster c;
    c.on(NodeVacated{"m", 0});
    c.on(NodeJoined{"m", devices("a:1")});
    c.admit("j");
    CHECK(c.propose("j", {}, 0).empty());
    c.on(NodeLost{"m"});
    c.on(NodeJoined{"m", devices("a:1")});
    CHECK(c.core.existing_devices().empty());
    c.on(NodeLost{"m"});
    c.on(NodeStays{"m"});
    CHECK(c.core.existing_devices().empty());
    CHECK(c.on(NodeJoined{"m", devices("a:1")}).size() == 1);
  }

  TEST_CASE("a node that was vacated twice is back when it stays") {
    Cluster c;
    c.on(NodeJoined{"m", devices("a:1")});
    c.on(NodeVacated{"m", 0});
    c.on(NodeVacated{"m", 0});
    c.on(NodeVacated{"m", 60});  // the notice of a provider, after the node was emptied
    CHECK(c.core.existing_devices().empty());
    c.on(NodeStays{"m"});
    CHECK(c.core.existing_devices() == devices("a:1"));
    c.core.check_invariants();
  }

  TEST_CASE("a vacated node whose daemon ends does not come back when it stays") {
    Cluster c;
    c.on(NodeJoined{"m", devices("a:1")});
    c.on(NodeVacated{"m", 0});
    c.on(NodeDraining{"m"});
    c.on(NodeStays{"m"});
    CHECK(c.core.existing_devices().empty());
    c.on(NodeJoined{"m", devices("a:1")});
    CHECK(c.core.existing_devices() == devices("a:1"));
  }

  TEST_CASE("a reservation takes its devices from its begin to its end") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    c.admit("j");
    c.propose("j", {}, 0);
    const ClaimMade demo{.name = "demo", .type = {"a"}, .count = 2, .begin_s = 100, .end_s = 160};
    REQUIRE(c.core.check_claim(demo).ok());
    CHECK(c.on(demo).empty());
    // The core asks to be woken at the begin, and nothing happens before.
    CHECK(c.core.decide_again_s() == 100);
    CHECK_FALSE(c.core.claims().at(0).begun);
    CHECK(c.core.decide(99).empty());
    CHECK(c.core.decide(100).size() == 1);
    CHECK(c.core.claims().at(0).begun);
    CHECK(c.core.held(claim_owner("demo")).size() == 1);
    CHECK(c.core.held("j").empty());
    c.core.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 0}}}, 101);
    CHECK(c.core.held(claim_owner("demo")).size() == 2);
    CHECK(c.core.decide_again_s() == 160);
    CHECK(c.core.take_ended_claims().empty());
    CHECK(c.core.decide(160).size() == 1);
    CHECK(c.core.held("j").size() == 1);
    CHECK(c.core.claims().empty());
    CHECK(c.core.take_ended_claims() == std::vector<std::string>{"demo"});
    CHECK(c.core.take_ended_claims().empty());
    c.core.check_invariants();
  }

  TEST_CASE("reservations are counted together where their times overlap") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    const auto claim = [](const char* name, std::uint32_t count, double begin_s, double end_s) {
      return ClaimMade{
          .name = name, .type = {"a"}, .count = count, .begin_s = begin_s, .end_s = end_s};
    };
    c.on(claim("x", 2, 0, 10));
    c.on(claim("y", 2, 20, 30));
    CHECK(c.core.check_claim(claim("z", 4, 10, 20)).ok());
    CHECK(c.core.check_claim(claim("z", 2, 0, 30)).ok());
    CHECK(c.core.check_claim(claim("z", 3, 0, 30)).error().message ==
          "claim \"z\": 3 of a: the cluster has 4, and other claims have 2");
    CHECK_FALSE(c.core.check_claim(claim("z", 3, 5, 20)).ok());
    CHECK_FALSE(c.core.check_claim(claim("z", 3, 10, 21)).ok());
    CHECK_FALSE(c.core.check_claim(ClaimMade{"z", {"a"}, 3}).ok());
    CHECK(c.core.check_claim(ClaimResized{"y", 4}).ok());
    c.on(claim("z", 2, 0, 30));
    CHECK_FALSE(c.core.check_claim(ClaimResized{"y", 3}).ok());
  }

  TEST_CASE("a reservation for a queue raises its guarantee, and lends the devices meanwhile") {
    ClusterCore core(*scheduler::make_policy("elastic-srtf"),
                     {.queues = *scheduler::completed_queues(
                          {{.name = "top", .guarantee = {}, .weight = 1},
                           {.name = "x", .guarantee = {}, .parent = "top", .weight = 0},
                           {.name = "y", .guarantee = devices("a:1"), .weight = 1}})});
    core.on(NodeJoined{"n", devices("a:3")});
    const auto admit = [&](const char* job, const char* queue, double now_s) {
      core.on(JobAdmitted{.job = job,
                          .resources = {.min_devices = 1, .max_devices = 1, .queue = queue},
                          .level = DeterminismLevel::kD2,
                          .max_p = 1},
              now_s);
      core.on(FromJob{job, Demand{}}, now_s);
    };
    const auto reserved = [](const char* queue, std::uint32_t count) {
      return ClaimMade{.name = "night",
                       .type = {"a"},
                       .count = count,
                       .begin_s = 100,
                       .end_s = 200,
                       .queue = queue};
    };
    CHECK(core.check_claim(reserved("top", 2)).error().message ==
          "reservation \"night\": queue = \"top\": it has queues below it; allowed: x, y");
    CHECK(core.check_claim(reserved("z", 2)).error().message ==
          "reservation \"night\": queue = \"z\": there is no such queue; allowed: x, y");
    CHECK(core.check_claim(reserved("x", 3)).error().message ==
          "claim \"night\": 3 of a: the cluster has 3, queues are guaranteed 1, and other "
          "reservations for queues have 0");
    REQUIRE(core.check_claim(reserved("x", 2)).ok());
    core.on(reserved("x", 2), 1);
    for (const char* job : {"y1", "y2", "y3"}) admit(job, "y", 2);
    for (const char* job : {"x1", "x2"}) admit(job, "x", 3);
    CHECK(core.held("x1").size() + core.held("x2").size() == 0);
    core.decide(100);
    CHECK(core.queues().at(1).types.at(0).guarantee == 2);
    CHECK(core.queues().at(0).types.at(0).guarantee == 2);
    // Two jobs of y are suspended, and x gets their devices as soon as they are free.
    for (int round = 0; round < 3; ++round)
      for (const char* job : {"y1", "y2", "y3"})
        for (std::uint32_t i = 0; core.held(job).empty() && i < 3; ++i)
          core.on(FromJob{job, DeviceReleased{{"n", {"a"}, i}}}, 101);
    CHECK(core.held("x1").size() + core.held("x2").size() == 2);
    CHECK(core.held("y1").size() + core.held("y2").size() + core.held("y3").size() == 1);
    CHECK(core.claims().at(0).devices == 0);
    core.check_invariants();
    core.decide(200);
    CHECK(core.claims().empty());
    CHECK(core.queues().at(1).types.at(0).guarantee == 0);
  }

  TEST_CASE("a reservation of a queue that no longer exists reserves nothing") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1")});
    c.on(ClaimMade{.name = "x", .type = {"a"}, .count = 1, .begin_s = 0, .end_s = 9, .queue = "q"});
    c.admit("j");
    CHECK(c.propose("j", {}, 0).size() == 1);
    CHECK(c.core.check_claim({.name = "y", .type = {"a"}, .count = 1, .queue = "q"})
              .error()
              .message ==
          "reservation \"y\": queue = \"q\": there is no such queue; the head has none (easyscaled "
          "--queues, --quota)");
  }

  TEST_CASE("a claim that becomes smaller frees devices at once, one that grows waits for them") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:4")});
    c.on(ClaimMade{"serving", {"a"}, 4});
    c.admit("j");
    CHECK(c.propose("j", {}, 0).empty());
    REQUIRE(c.core.check_claim(ClaimResized{"serving", 3}).ok());
    CHECK(c.on(ClaimResized{"serving", 3}) ==
          Effects{ToJob{"j", Allocation{1, 0, {{"n", {"a"}, 3}}}}});
    CHECK(c.core.check_claim(ClaimResized{"serving", 4}).ok());
    CHECK(c.core.check_claim(ClaimResized{"serving", 5}).error().message ==
          "claim \"serving\": 5 of a: the cluster has 4, and other claims have 0");
    CHECK(c.core.check_claim(ClaimResized{"other", 1}).error().kind == ErrorKind::kNotFound);
    // The job is suspended because of it.
    CHECK(c.on(ClaimResized{"serving", 4}).size() == 1);
    CHECK(c.core.claims().at(0).count == 4);
    CHECK(c.core.claims().at(0).devices == 3);
    c.on(FromJob{"j", DeviceReleased{{"n", {"a"}, 3}}});
    CHECK(c.core.claims().at(0).devices == 4);
    CHECK(c.core.ignored_events() == 0);
    c.on(ClaimResized{"other", 1});
    CHECK(c.core.ignored_events() == 1);
    // A smaller number is never refused, whichever nodes are away.
    c.on(NodeLost{"n"});
    CHECK(c.core.check_claim(ClaimResized{"serving", 2}).ok());
    CHECK_FALSE(c.core.check_claim(ClaimResized{"serving", 5}).ok());
  }

  TEST_CASE("a claim outlives its node and gets the same devices back, or other ones") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:1")});
    c.on(ClaimMade{"serving", {"a"}, 1});
    c.on(NodeLost{"n"});
    CHECK(c.core.held(claim_owner("serving")).empty());
    c.on(NodeJoined{"n", devices("a:1")});
    CHECK(c.core.held(claim_owner("serving")).size() == 1);
    c.admit("j");
    CHECK(c.propose("j", {}, 0).empty());
    CHECK(c.on(ClaimEnded{"serving"}) == Effects{ToJob{"j", Allocation{1, 0, ids("n", "a", 1)}}});
  }

  TEST_CASE("jobs are expected to lose what others lose, until they measure that they do not") {
    scheduler::ClusterView seen;
    ClusterCore core(std::make_unique<Watcher>(seen));
    const auto demand = [&](const JobId& job, double now_s, std::uint64_t sequence,
                            double steps_per_s, std::vector<scheduler::SyncPoint> sync) {
      JobProgress progress{.total_steps = 1e6,
                           .remaining_steps = 1e6,
                           .steps_per_second = steps_per_s,
                           .started = steps_per_s > 0,
                           .sync = std::move(sync)};
      core.on(FromJob{job, Demand{.sequence = sequence, .progress = std::move(progress)}}, now_s);
    };
    core.on(NodeJoined{"n", devices("a:2")}, 0);
    for (const char* job : {"wide", "j", "k", "l", "m"}) {
      core.on(JobAdmitted{.job = job, .max_p = 8, .submit_s = 0}, 0);
      demand(job, 0, 0, 0, {});
    }
    CHECK(core.held("wide").size() == 2);
    // They were restored with what earlier jobs of their models had measured.
    demand("j", 1, 0, 0, {{2, 0.25}});
    demand("k", 1, 0, 0, {{5, 1}});
    core.decide(1);
    CHECK(expected_sync_s(seen, "m") == 0);
    demand("l", 2, 0, 0, {{2, 0.5}});
    core.decide(2);
    CHECK(expected_sync_s(seen, "m") == 0.25);
    CHECK(expected_sync_s(seen, "wide") == 0.25);
    CHECK(expected_sync_s(seen, "j") == 0);  // its own curve is known
    // Steps of 1 s. After a pause of at most 3 s and eight steps it has measured nothing.
    demand("wide", 5, 1, 8, {});
    CHECK(core.decide_again_s() == doctest::Approx(11));
    core.decide(10);
    CHECK(expected_sync_s(seen, "wide") == 0.25);
    core.decide(11);
    CHECK(expected_sync_s(seen, "wide") == 0);
    CHECK(expected_sync_s(seen, "m") == 0.25);  // one of four loses nothing
    core.on(FromJob{"wide", JobEnded{}}, 30);
    core.check_invariants();
  }

  TEST_CASE("events that are only entered lead to one decision together") {
    Cluster c;
    c.on(NodeJoined{"n", devices("a:2")});
    for (const char* job : {"j", "k"}) {
      CHECK(c.core.take(JobAdmitted{.job = job, .max_p = 4}, 1).empty());
      CHECK(c.core.take(FromJob{job, Demand{}}, 1).empty());
    }
    CHECK(c.core.decide(1) == Effects{ToJob{"j", Allocation{1, 0, {{"n", {"a"}, 0}}}},
                                      ToJob{"k", Allocation{1, 0, {{"n", {"a"}, 1}}}}});
    CHECK(c.core.decide(2).empty());
    c.core.check_invariants();
  }
}

}  // namespace es::actors
