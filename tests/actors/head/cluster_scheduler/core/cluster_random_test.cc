// Random histories of jobs, nodes and releases in any order. An oracle judges them. It sees only
// the events and the effects.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "actors/head/cluster_scheduler/core/cluster_core.h"
#include "scheduler/model/device_sets.h"
#include "scheduler/policy/greedy/greedy.h"
#include "tests/support/seed.h"

namespace es::actors {
namespace {

using namespace cluster;
using namespace protocol;

const std::vector<std::string> kTypes{"a", "b", "c"};

struct JobModel {
  JobAdmitted admitted;
  std::optional<Demand> demand;  // in force
  std::uint64_t sequence = 0;
  std::set<DeviceId> allocated;
  // Devices on which a process may run: they are allocated, or taken away and not yet released.
  std::set<DeviceId> processes;
};

class History {
 public:
  // `faults`: tries to use devices fail, and time passes.
  explicit History(std::uint64_t seed, bool faults = false) : faults_(faults), random_(seed) {}

  void run(int events) {
    for (int i = 0; i < events; ++i) deliver(random_event());
  }

  // Ends the jobs one by one. All nodes are there, and jobs give back every device that they owe.
  // Then no job may wait while the devices that it needs are free, and in the end no job is left.
  void finish() {
    for (const auto& [node, devices] : inventory_) {
      deliver(NodeStays{node});
      deliver(NodeJoined{node, devices, {}, {}, memory_of(node)});
    }
    for (const std::string name : {"c0", "c1", "c2"}) deliver(ClaimEnded{name});
    // Whatever was set aside comes back by itself, for all but the jobs that failed there.
    now_s_ += 1e4;
    deliver(NodeStays{"n0"});
    for (const auto& node : core_.nodes()) {
      for (const auto& device : node.devices) CHECK(device.suspect.empty());
      CHECK(core_.cut_from(node.name).empty());
      for (const auto& device : node.devices) deliver(DeviceCleared{device.id});
    }
    while (!jobs_.empty()) {
      give_back_everything_owed();
      for (const auto& [id, job] : jobs_) CHECK((is_served(job) || !need_is_free(job)));
      const auto next = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& j) {
        return is_served(j.second) || holds_devices(j.second) || lacks_memory(j.second);
      });
      REQUIRE(next != jobs_.end());
      deliver(FromJob{next->first, JobEnded{}});
    }
    for (const DevicePool::NodeView& node : core_.nodes())
      for (const DevicePool::DeviceView& device : node.devices) CHECK(device.owner.empty());
  }

  const std::vector<Effect>& effects() const { return all_effects_; }

 private:
  std::uint32_t draw(std::uint32_t low, std::uint32_t high) {
    return low + static_cast<std::uint32_t>(random_() % (high - low + 1));
  }
  DeviceSet draw_set(std::uint32_t most) {
    DeviceSet set;
    for (const std::string& type : kTypes) set.add({type}, draw(0, most));
    return set;
  }
  const JobModel* draw_job() {
    if (jobs_.empty()) return nullptr;
    return &std::next(jobs_.begin(), draw(0, static_cast<std::uint32_t>(jobs_.size()) - 1))->second;
  }

  Event random_event() {
    const JobModel* job = draw_job();
    const std::uint32_t kind = draw(0, faults_ ? 30 : 24);
    if (kind == 0 || inventory_.empty()) return random_join();
    if (kind == 1) return NodeLost{"n" + std::to_string(draw(0, 4))};
    if (kind <= 3 || job == nullptr) return random_admission();
    if (kind <= 10) return random_demand(*job);
    if (kind <= 18) return random_release(*job);
    if (kind == 19) return FromJob{job->admitted.job, JobEnded{}};
    if (kind <= 21) return random_claim();
    if (kind > 24) return random_try(*job);
    const std::string node = "n" + std::to_string(draw(0, 4));
    if (kind == 22) return NodeVacated{node, draw(0, 1) == 0 ? 0 : 1e9};
    if (kind == 23) return NodeDraining{node};
    return NodeStays{node};
  }

  // Begins a claim. If it cannot begin or has begun already, changes its number of devices or ends
  // it.
  Event random_claim() {
    const std::string name = "c" + std::to_string(draw(0, 2));
    const ClaimMade claim{name, {kTypes[draw(0, 2)]}, draw(1, 4)};
    if (!claims_.contains(name) && core_.check_claim(claim).ok()) return claim;
    const ClaimResized resized{name, draw(1, 4)};
    if (draw(0, 1) == 0 && core_.check_claim(resized).ok()) return resized;
    return ClaimEnded{name};
  }

  Event random_join() {
    const std::string node = "n" + std::to_string(draw(0, 4));
    const auto [at, is_new] = inventory_.try_emplace(node, draw_set(3));
    // A node may come back to another rack.
    const NodePlace place{draw(0, 1) == 0 ? "" : "r" + std::to_string(draw(0, 2)),
                          static_cast<std::uint32_t>(draw(0, 2))};
    return NodeJoined{node, at->second, {}, place, memory_of(node)};
  }

  // The first node has no limit.
  static MemoryByType memory_of(const std::string& node) {
    MemoryByType memory;
    if (node == "n0") return memory;
    for (const std::string& type : kTypes) memory[{type}] = {.all = 1U + (node.back() - '0') % 3U};
    return memory;
  }
  static bool has_room(const JobModel& job, const DeviceId& device) {
    const MemoryByType memory = memory_of(device.node);
    const auto at = memory.find(device.type);
    return at == memory.end() || job.admitted.memory.on_cpu.always <= at->second.all;
  }
  // Whether some devices have too little memory for the job, so that it may wait for ever.
  bool lacks_memory(const JobModel& job) const {
    return std::ranges::any_of(core_.nodes(), [&](const DevicePool::NodeView& node) {
      return std::ranges::any_of(node.devices, [&](const auto& d) { return !has_room(job, d.id); });
    });
  }

  Event random_admission() {
    JobAdmitted job{.job = "j" + std::to_string(next_job_++)};
    job.max_p = draw(1, 8);
    job.memory.on_cpu.always = draw(0, 2) == 0 ? draw(1, 3) : 0;
    ResourceSpec& resources = job.resources;
    resources.min_devices = draw(1, std::min(job.max_p, 3U));
    resources.max_devices = draw(0, 1) == 0 ? 0 : draw(resources.min_devices, job.max_p);
    job.level = draw(0, 1) == 0 ? DeterminismLevel::kD1 : DeterminismLevel::kD2;
    if (draw(0, 2) == 0) resources.device_types = {{kTypes[draw(0, 2)]}};
    return job;
  }

  Event random_demand(const JobModel& job) {
    Demand demand;
    demand.sequence = draw(0, 9) == 0 ? 0 : job.sequence;
    if (draw(0, 2) == 0) demand.exact = draw_set(2);
    for (std::uint32_t n = draw(0, 3); n > 0; --n)
      demand.proposals.push_back({{kTypes[draw(0, 2)]}, draw(1, 4), draw(5, 40) / 10.0});
    return FromJob{job.admitted.job, std::move(demand)};
  }

  // Usually a device that the job owes, sometimes one that it holds, or any other one.
  Event random_release(const JobModel& job) {
    std::vector<DeviceId> owed;
    for (const DeviceId& id : job.processes)
      if (!job.allocated.contains(id) || draw(0, 9) == 0) owed.push_back(id);
    if (owed.empty()) return FromJob{job.admitted.job, DeviceReleased{{"n0", {"a"}, draw(0, 3)}}};
    return FromJob{job.admitted.job,
                   DeviceReleased{owed[draw(0, static_cast<std::uint32_t>(owed.size()) - 1)]}};
  }

  // The try of a device has failed, and the job gives it back later; or it computes.
  Event random_try(const JobModel& job) {
    now_s_ += draw(0, 9) == 0 ? draw(0, 100) : 0;
    const std::vector<DeviceId> held(job.allocated.begin(), job.allocated.end());
    if (held.empty()) return NodeStays{"n9"};
    if (draw(0, 3) == 0) return FromJob{job.admitted.job, DevicesWork{held}};
    const auto fault = static_cast<DeviceFailed::Fault>(draw(0, 2));
    const DeviceId& device = held[draw(0, static_cast<std::uint32_t>(held.size()) - 1)];
    return FromJob{job.admitted.job,
                   DeviceFailed{device, "why", fault, "n" + std::to_string(draw(0, 4))}};
  }

  void deliver(const Event& event) {
    std::visit([this](const auto& e) { before(e); }, event);
    const std::vector<Effect> effects = core_.on(event, now_s_);
    core_.check_invariants();
    for (const Effect& effect : effects)
      std::visit([&](const auto& m) { judge(jobs_.at(effect.job), m); }, effect.message);
    for (const auto& [id, job] : jobs_) CHECK(core_.held(id) == job.allocated);
    for (const auto& [name, count] : claims_) {
      const std::set<DeviceId>& taken = core_.held(claim_owner(name));
      CHECK(taken.size() <= count);
      for (const DeviceId& id : taken)
        for (const auto& [other, job] : jobs_) CHECK_FALSE(job.processes.contains(id));
    }
    judge_nodes();
    all_effects_.insert(all_effects_.end(), effects.begin(), effects.end());
  }

  // A node whose daemon is there is in use, unless its jobs have to leave it.
  void judge_nodes() {
    for (const DevicePool::NodeView& node : core_.nodes()) {
      if (!live_.contains(node.name)) CHECK_FALSE(node.alive);
      if (live_.contains(node.name) && !vacated_.contains(node.name)) CHECK(node.alive);
    }
  }

  void before(const NodeJoined& e) { live_.insert(e.node); }
  void before(const NodeLost& e) { live_.erase(e.node); }
  void before(const NodeDraining& e) { live_.erase(e.node); }
  void before(const NodeVacated& e) { vacated_.insert(e.node); }
  void before(const NodeStays& e) { vacated_.erase(e.node); }
  void before(const JobAdmitted& e) { jobs_[e.job].admitted = e; }
  void before(const FromJob& e) {
    if (std::holds_alternative<JobEnded>(e.message))
      jobs_.erase(e.job);
    else
      std::visit([&](const auto& m) { sent(jobs_.at(e.job), m); }, e.message);
  }
  void before(const ClaimMade& e) { claims_[e.name] = e.count; }
  void before(const ClaimResized& e) { claims_[e.name] = e.count; }
  void before(const ClaimEnded& e) { claims_.erase(e.name); }
  void before(const auto&) {}  // These histories do not contain the other events.

  void sent(JobModel& job, const Demand& demand) {
    before_demand_ = job.demand;
    job.demand = demand;
  }
  void sent(JobModel& job, const DeviceReleased& message) {
    job.processes.erase(message.device);
    job.allocated.erase(message.device);
  }
  void sent(JobModel&, const auto&) {}  // messages that these histories do not draw

  void judge(JobModel& job, const DemandRefused&) { job.demand = before_demand_; }
  void judge(JobModel& job, const Allocation& e) {
    CHECK(e.sequence == job.sequence + 1);
    job.sequence = e.sequence;
    const std::set<DeviceId> devices(e.devices.begin(), e.devices.end());
    const bool grows =
        !std::includes(job.allocated.begin(), job.allocated.end(), devices.begin(), devices.end());
    for (const DeviceId& id : devices) {
      CHECK(live_.contains(id.node));
      if (job.allocated.contains(id)) continue;
      for (const auto& [other, model] : jobs_) CHECK_FALSE(model.processes.contains(id));
      for (const auto& [other, until_s] : core_.cut_from(id.node))
        for (const DeviceId& beside : devices) CHECK(beside.node != other);
      CHECK_FALSE(is_suspect(id));
      CHECK(has_room(job, id));
    }
    job.allocated = devices;
    job.processes.insert(devices.begin(), devices.end());
    if (grows) judge_grant(job);
  }

  void judge_grant(const JobModel& job) {
    REQUIRE(job.demand.has_value());
    const DeviceSet now = held(job);
    if (job.demand->exact) {
      CHECK(now.contains(*job.demand->exact));
      return;
    }
    CHECK(now.total() >= job.admitted.resources.min_devices);
    CHECK(now.total() <= job.admitted.max_p);
    if (job.admitted.resources.max_devices != 0)
      CHECK(now.total() <= job.admitted.resources.max_devices);
    if (job.admitted.level != DeterminismLevel::kD2) CHECK(now.counts.size() == 1);
  }

  bool is_suspect(const DeviceId& id) const {
    for (const DevicePool::NodeView& node : core_.nodes())
      for (const DevicePool::DeviceView& device : node.devices)
        if (device.id == id) return !device.suspect.empty();
    return false;
  }

  static DeviceSet held(const JobModel& job) {
    DeviceSet set;
    for (const DeviceId& id : job.allocated) set.add(id.type, 1);
    return set;
  }

  static bool is_served(const JobModel& job) {
    if (!job.demand) return true;
    return job.demand->exact ? held(job).contains(*job.demand->exact)
                             : held(job).total() >= job.admitted.resources.min_devices;
  }

  // A job may continue with fewer devices than it asks for. Two jobs that were pinned again may
  // each wait for devices of the other one, and a job that was pinned to types may not add others
  // by itself.
  static bool holds_devices(const JobModel& job) { return !job.allocated.empty(); }

  bool need_is_free(const JobModel& job) const {
    DeviceSet free;
    for (const DevicePool::NodeView& node : core_.nodes())
      for (const DevicePool::DeviceView& device : node.devices)
        if (device.owner.empty() && has_room(job, device.id)) free.add(device.id.type, 1);
    if (job.demand->exact) return free.contains(scheduler::beyond(*job.demand->exact, held(job)));
    const bool mixes = job.admitted.level == DeterminismLevel::kD2;
    const std::uint32_t missing = job.admitted.resources.min_devices - held(job).total();
    std::uint32_t usable = 0;
    for (const DeviceCount& c : free.counts) {
      const auto& types = job.admitted.resources.device_types;
      if (!types.empty() && std::find(types.begin(), types.end(), c.type) == types.end()) continue;
      if (!mixes && !job.allocated.empty() && job.allocated.begin()->type != c.type) continue;
      usable = mixes ? usable + c.count : std::max(usable, c.count);
    }
    return usable >= missing && (mixes || held(job).counts.size() <= 1);
  }

  // The devices that an allocation took away, and those that a served pinned job holds beyond its
  // demand.
  static std::optional<DeviceId> owed_device(const JobModel& job) {
    for (const DeviceId& id : job.processes)
      if (!job.allocated.contains(id)) return id;
    if (!job.demand || !job.demand->exact || !is_served(job)) return std::nullopt;
    const DeviceSet excess = scheduler::beyond(held(job), *job.demand->exact);
    for (const DeviceId& id : job.allocated)
      if (excess.count_of(id.type) > 0) return id;
    return std::nullopt;
  }

  void give_back_everything_owed() {
    for (auto at = jobs_.begin(); at != jobs_.end();) {
      if (const auto device = owed_device(at->second)) {
        deliver(FromJob{at->first, DeviceReleased{*device}});
        at = jobs_.begin();
      } else {
        ++at;
      }
    }
  }

  const bool faults_;
  double now_s_ = 0;
  std::mt19937_64 random_;
  ClusterCore core_{std::make_unique<scheduler::GreedyPolicy>()};
  std::map<std::string, DeviceSet> inventory_;
  std::set<std::string> live_, vacated_;
  std::map<JobId, JobModel> jobs_;
  std::map<std::string, std::uint32_t> claims_;  // The number of devices of each claim.
  std::uint32_t next_job_ = 0;
  std::optional<Demand> before_demand_;
  std::vector<Effect> all_effects_;
};

}  // namespace

TEST_SUITE("actors/head/cluster_scheduler/cluster_core") {
  TEST_CASE("random histories: one owner per device, only free ones granted, the same each time") {
    const std::uint64_t seed = test::seed("cluster histories");
    for (std::uint64_t round = 0; round < 300; ++round) {
      CAPTURE(round);
      History first(seed + round);
      first.run(120);
      History again(seed + round);
      again.run(120);
      CHECK(first.effects() == again.effects());
    }
  }

  TEST_CASE("random histories: what is set aside is given to nobody and comes back by itself") {
    const std::uint64_t seed = test::seed("cluster faults");
    for (std::uint64_t round = 0; round < 100; ++round) {
      CAPTURE(round);
      History history(seed + round, true);
      history.run(100);
      history.finish();
    }
  }

  TEST_CASE("random histories: when jobs end one by one, every job is served in its turn") {
    const std::uint64_t seed = test::seed("cluster liveness");
    for (std::uint64_t round = 0; round < 300; ++round) {
      CAPTURE(round);
      History history(seed + round);
      history.run(60);
      history.finish();
    }
  }
}

}  // namespace es::actors
