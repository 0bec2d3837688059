#include "tests/sim/fault_history.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "actors/node/shell/node_agent_actor.h"
#include "actors/worker/shell/worker_actor.h"
#include "tests/sim/final_check.h"
#include "tests/sim/sim_gateway.h"
#include "tests/sim/sim_jobs.h"

namespace es::test {

using namespace actors;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// Which process is caught with which frame. A caught head dies. A caught worker dies or freezes.
struct TrapPoint {
  MessageType type;
  bool at_receiver;
};
constexpr TrapPoint kTrapPoints[] = {
    {MessageType::kHello, false},       {MessageType::kReport, false},
    {MessageType::kReady, false},       {MessageType::kDrained, false},
    {MessageType::kContrib, false},     {MessageType::kContrib, true},
    {MessageType::kReduced, false},     {MessageType::kReduced, true},
    {MessageType::kFetch, false},       {MessageType::kFetch, true},
    {MessageType::kState, false},       {MessageType::kState, true},
    {MessageType::kPrepare, false},     {MessageType::kPrepare, true},
    {MessageType::kInstall, false},     {MessageType::kInstall, true},
    {MessageType::kGo, false},          {MessageType::kGo, true},
    {MessageType::kDrain, false},       {MessageType::kDrain, true},
    {MessageType::kRelease, false},     {MessageType::kRelease, true},
    {MessageType::kCommitted, false},   {MessageType::kCheckpointWritten, false},
    {MessageType::kStartWorker, false}, {MessageType::kEvaluated, false},
    {MessageType::kComplete, false},    {MessageType::kComplete, true},
    {MessageType::kUpdated, false},     {MessageType::kUpdated, true},
    {MessageType::kFetchShards, false}, {MessageType::kFetchShards, true},
    {MessageType::kShards, false},      {MessageType::kShards, true},
};

class FaultHistory {
 public:
  explicit FaultHistory(std::uint64_t seed)
      : seed_(seed),
        world_({.seed = seed,
                .nodes = {{"n1", "cpu-avx2:2+cpu-avx512:1"},
                          {"n2", "cpu-avx2:2+cpu-avx512:1"},
                          {"n3", "cpu-avx2:2+cpu-avx512:1"}}}) {}

  HistoryReport run();

 private:
  using Fault = void (FaultHistory::*)();
  JobSpec some_spec(std::uint64_t number);
  void advance(Instant duration);
  void on_caught(const PeerId& peer, bool frozen);
  void later(Instant delay, std::function<void()> undo) {
    undo_.emplace(world_.now() + delay, std::move(undo));
  }
  Instant some_time(Instant most) { return world_.random_time(milliseconds(1), most); }
  Instant pause();
  bool over();
  void count_lost_shards();
  std::vector<Incarnation> some_workers(std::size_t least);
  PeerId some_peer();

  void kill_one();
  void kill_several();
  void kill_all();
  void kill_all_but_one();
  void trap();
  void freeze();
  void scale();
  void set_pace();
  void cut_workers();
  void cut_node();
  void flapping_node();
  void lose_node();
  void freeze_node();
  void hide_newest_state();
  void kill_head();
  void trap_disk();
  void fill_disk();
  void checkpoint();
  void pause_job();
  void failing_disk();
  void destroy_disk();
  void reset_link();
  void lose_frames();
  void slow_link();
  bool take_node(std::string& name);

  std::uint64_t seed_;
  SimWorld world_;
  std::map<JobId, JobSpec> jobs_;
  std::multimap<Instant, std::function<void()>> undo_;
  bool node_is_away_ = false;
  bool may_wait_in_vain_ = false;  // A message was lost or late, or a process stood still.
  std::uint64_t checkpoints_ = 0;
  std::uint64_t disk_failures_ = 0;  // Faults that were counted.
  HistoryReport report_;
};

JobSpec FaultHistory::some_spec(std::uint64_t number) {
  const auto max_p = static_cast<std::uint32_t>(2 + world_.pick(5));
  const Version steps = 20 + world_.pick(130);
  JobSpec spec = job_spec(seed_ * 2 + number, steps, max_p);
  if (world_.pick(3) == 0) {
    const std::string n = "@" + std::to_string(steps / 2);
    spec = staged_job(
        spec.seed, "cpu-avx2:2" + n + ",cpu-avx512:2" + n + ",cpu-avx2:1+cpu-avx512:1" + n, max_p);
  } else if (world_.pick(2) == 0) {
    spec.level = DeterminismLevel::kD2;
  }
  if (world_.pick(3) == 0)
    spec.checkpoint = {.every_steps = 5 + world_.pick(20),
                       .directory = "/series",
                       .keep = static_cast<std::uint32_t>(2 + world_.pick(2))};
  if (seed_ % 2 == 0) {
    spec.shard.state = "on";
    ++report_.done["sharded job"];
  }
  spec.eval_every = world_.pick(3) * 4;
  spec.batch_size = static_cast<std::uint32_t>(1 + world_.pick(3));
  spec.data.samples = spec.max_p * spec.batch_size * (2 + world_.pick(9)) +
                      world_.pick(2) * world_.pick(spec.max_p * spec.batch_size);
  return spec;
}

// Mostly short times, because then the consequences of the last fault are still in progress.
Instant FaultHistory::pause() {
  const Instant most[] = {milliseconds(5), milliseconds(50), milliseconds(400), seconds(4)};
  return some_time(most[world_.pick(4)]);
}

void FaultHistory::advance(Instant duration) {
  const Instant end = world_.now() + duration;
  while (world_.now() < end) {
    const Instant due = undo_.empty() ? end : std::min(end, undo_.begin()->first);
    if (due > world_.now()) world_.run_for_or_caught(due - world_.now());
    if (const auto caught = world_.take_caught()) on_caught(caught->first, caught->second);
    while (!undo_.empty() && undo_.begin()->first <= world_.now()) {
      const auto undo = undo_.begin()->second;
      undo_.erase(undo_.begin());
      undo();
    }
  }
}

void FaultHistory::on_caught(const PeerId& peer, bool frozen) {
  ++report_.done[frozen ? "caught and frozen" : "caught"];
  if (peer == kHead && world_.head_runs()) {
    ++report_.done["head caught"];
    world_.stop_head();
    later(some_time(seconds(2)), [this] { world_.start_head(); });
  } else if (frozen) {
    for (const Incarnation worker : world_.running())
      if (peer == worker_peer(worker))
        later(some_time(seconds(8)), [this, worker] { world_.wake_worker(worker); });
  }
}

// Steps may take much longer than a message, or almost no time compared with one. In the second
// case messages of the next step overtake those of this one.
void FaultHistory::set_pace() {
  const std::uint64_t times_faster[] = {1, 10, 100};
  for (auto& [type, time] : world_.cluster().step_time) time /= times_faster[world_.pick(3)];
}

HistoryReport FaultHistory::run() {
  set_pace();
  world_.cluster().shared_disk = world_.pick(3) == 0;
  ++report_.done[world_.cluster().shared_disk ? "one disk" : "own disks"];
  const std::uint64_t jobs = 1 + (world_.pick(4) == 0 ? 1 : 0);
  for (std::uint64_t i = 0; i < jobs; ++i) {
    // Two staged jobs could need more devices than there are.
    JobSpec spec = some_spec(i);
    if (i > 0 && !spec.stages.empty()) spec = job_spec(spec.seed, 40, spec.max_p);
    jobs_[world_.client().submit(spec).value()] = spec;
  }
  struct Kind {
    const char* name;
    Fault fault;
    bool makes_wait = false;  // A process may exceed a time limit.
  };
  constexpr Kind kFaults[] = {
      {"kill one", &FaultHistory::kill_one},
      {"kill one", &FaultHistory::kill_one},
      {"kill several", &FaultHistory::kill_several},
      {"kill all", &FaultHistory::kill_all},
      {"kill all but one", &FaultHistory::kill_all_but_one},
      {"trap", &FaultHistory::trap},
      {"trap", &FaultHistory::trap},
      {"trap", &FaultHistory::trap},
      {"freeze", &FaultHistory::freeze, true},
      {"freeze", &FaultHistory::freeze, true},
      {"scale", &FaultHistory::scale},
      {"scale", &FaultHistory::scale},
      {"scale", &FaultHistory::scale},
      {"cut workers", &FaultHistory::cut_workers, true},
      {"cut node", &FaultHistory::cut_node, true},
      {"flapping node", &FaultHistory::flapping_node, true},
      {"lose node", &FaultHistory::lose_node, true},
      {"freeze node", &FaultHistory::freeze_node, true},
      {"hide newest state", &FaultHistory::hide_newest_state, true},
      {"hide newest state", &FaultHistory::hide_newest_state, true},
      {"kill head", &FaultHistory::kill_head},
      {"head dies at a write", &FaultHistory::trap_disk},
      {"head dies at a write", &FaultHistory::trap_disk},
      {"full disk", &FaultHistory::fill_disk, true},
      {"full disk", &FaultHistory::fill_disk, true},
      {"checkpoint", &FaultHistory::checkpoint},
      {"pause", &FaultHistory::pause_job},
      {"pause", &FaultHistory::pause_job},
      {"failing disk", &FaultHistory::failing_disk},
      {"destroyed disk", &FaultHistory::destroy_disk},
      {"reset link", &FaultHistory::reset_link, true},
      {"lose frames", &FaultHistory::lose_frames, true},
      {"slow link", &FaultHistory::slow_link, true},
  };
  const std::uint64_t faults = 1 + world_.pick(10);
  for (std::uint64_t i = 0; i < faults; ++i) {
    advance(pause());
    const Kind& kind = kFaults[world_.pick(std::size(kFaults))];
    ++report_.done[over() ? "after the end" : kind.name];
    may_wait_in_vain_ = may_wait_in_vain_ || kind.makes_wait;
    (this->*kind.fault)();
  }
  world_.disturb(SetTrap{});
  world_.trap_disk(0);
  world_.mend_disk();
  advance(milliseconds(10));
  while (!undo_.empty()) advance(undo_.begin()->first - world_.now() + milliseconds(1));
  report_.error = final_check(world_, jobs_, report_.done);
  count_lost_shards();
  if (report_.error.empty() && !may_wait_in_vain_ && world_.cluster().waits_in_vain > 0)
    report_.error = "a worker waited in vain, though nothing was lost, late or frozen";
  return report_;
}

bool FaultHistory::over() {
  const auto on_disk = world_.disk().load_all();
  return std::all_of(on_disk->begin(), on_disk->end(),
                     [](const JobRecord& record) { return is_over(record.state); });
}

// How often a job went back to a saved state because both holders of a shard were lost.
void FaultHistory::count_lost_shards() {
  for (const auto& [job, spec] : jobs_)
    for (const std::string& line : world_.client().log(job))
      if (line.find("both workers that held the optimizer state") != std::string::npos)
        ++report_.done["lost owner and buddy"];
}

// --- processes

std::vector<Incarnation> FaultHistory::some_workers(std::size_t least) {
  std::vector<Incarnation> workers = world_.running();
  for (std::size_t i = workers.size(); i > 1; --i)
    std::swap(workers[i - 1], workers[world_.pick(i)]);
  if (workers.size() > least) workers.resize(least + world_.pick(workers.size() - least));
  return workers;
}

void FaultHistory::kill_one() {
  const auto running = world_.running();
  if (!running.empty()) world_.crash_worker(running[world_.pick(running.size())]);
}

void FaultHistory::kill_several() {
  for (const Incarnation worker : some_workers(2)) world_.crash_worker(worker);
}

void FaultHistory::kill_all() {
  for (const Incarnation worker : world_.running()) world_.crash_worker(worker);
}

void FaultHistory::kill_all_but_one() {
  const auto running = world_.running();
  if (running.empty()) return;
  const std::size_t spared = world_.pick(running.size());
  for (std::size_t i = 0; i < running.size(); ++i)
    if (i != spared) world_.crash_worker(running[i]);
}

void FaultHistory::trap() {
  const TrapPoint& point = kTrapPoints[world_.pick(std::size(kTrapPoints))];
  const bool freeze = world_.pick(4) == 0;
  may_wait_in_vain_ = may_wait_in_vain_ || freeze;
  world_.disturb(SetTrap{.type = point.type,
                         .at_receiver = point.at_receiver,
                         .freeze = freeze,
                         .nth = static_cast<std::uint32_t>(1 + world_.pick(8))});
  // Planned changes are rare, so one is made for the messages that occur in them only.
  if (world_.pick(2) == 0) scale();
}

void FaultHistory::freeze() {
  const auto running = world_.running();
  if (running.empty()) return;
  const Incarnation worker = running[world_.pick(running.size())];
  world_.freeze_worker(worker);
  const Instant most = world_.pick(2) == 0 ? milliseconds(500) : seconds(10);
  later(some_time(most), [this, worker] { world_.wake_worker(worker); });
}

// --- requests of clients

void FaultHistory::scale() {
  for (const auto& [job, spec] : jobs_) {
    if (!spec.stages.empty() || world_.pick(3) == 0) continue;
    std::string devices;
    if (world_.pick(4) != 0) {
      const std::string type = world_.pick(2) == 0 ? "cpu-avx2" : "cpu-avx512";
      // The devices that exist even while one machine is away.
      const std::uint64_t most = std::min<std::uint64_t>(type == "cpu-avx2" ? 4 : 2, spec.max_p);
      devices = type + ":" + std::to_string(1 + world_.pick(most));
    }
    world_.client().post_scale(job, devices);
  }
}

void FaultHistory::checkpoint() {
  for (const auto& [job, spec] : jobs_)
    world_.client().post_checkpoint(job, "disk/" + std::to_string(++checkpoints_));
}

// Other jobs, or none, may have its devices meanwhile.
void FaultHistory::pause_job() {
  for (const auto& [job, spec] : jobs_) {
    world_.client().post_pause(job);
    later(some_time(seconds(6)), [this, job = job] { world_.client().post_resume(job); });
  }
}

// The states that were saved there are gone.
void FaultHistory::destroy_disk() {
  world_.cluster().disk_of("n" + std::to_string(1 + world_.pick(3))).clear();
}

void FaultHistory::failing_disk() {
  world_.cluster().disk_fails = true;
  checkpoint();
  later(some_time(seconds(2)), [this] { world_.cluster().disk_fails = false; });
}

// --- network and machines

PeerId FaultHistory::some_peer() {
  const auto running = world_.running();
  const std::uint64_t choice = world_.pick(4);
  if (choice == 0 || running.empty()) return node_peer("n" + std::to_string(1 + world_.pick(3)));
  return worker_peer(running[world_.pick(running.size())]);
}

void FaultHistory::cut_workers() {
  const auto workers = some_workers(2);
  if (workers.size() < 2) return;
  const PeerId a = worker_peer(workers[0]), b = worker_peer(workers[1]);
  const std::uint64_t way = world_.pick(3);
  world_.disturb(BlockLink{a, b, way != 1, way != 2});
  later(some_time(world_.pick(3) == 0 ? seconds(100) : seconds(5)), [=, this] {
    world_.disturb(BlockLink{a, b});
  });
}

void FaultHistory::reset_link() {
  const auto workers = some_workers(2);
  const PeerId a = some_peer();
  const PeerId b = workers.empty() || world_.pick(2) == 0 ? kHead : worker_peer(workers[0]);
  if (a != b) world_.disturb(ResetLink{a, b});
}

void FaultHistory::lose_frames() {
  world_.disturb(LoseFrames{static_cast<std::uint32_t>(1 + world_.pick(3))});
}

void FaultHistory::slow_link() {
  const auto workers = some_workers(2);
  if (workers.empty()) return;
  const PeerId a = worker_peer(workers[0]);
  const PeerId b = workers.size() < 2 || world_.pick(2) == 0 ? kHead : worker_peer(workers[1]);
  world_.disturb(SlowLink{a, b, some_time(seconds(2))});
  later(some_time(seconds(5)), [=, this] { world_.disturb(SlowLink{a, b}); });
}

bool FaultHistory::take_node(std::string& name) {
  name = "n" + std::to_string(1 + world_.pick(3));
  return !std::exchange(node_is_away_, true);
}

void FaultHistory::cut_node() {
  std::string node;
  if (!take_node(node)) return;
  const std::uint64_t way = world_.pick(3);
  world_.cut_node(node, way != 1, way != 2);
  later(some_time(seconds(10)), [this, node] {
    world_.heal_node(node);
    later(seconds(5), [this] { node_is_away_ = false; });
  });
}

void FaultHistory::flapping_node() {
  std::string node;
  if (!take_node(node)) return;
  const std::uint64_t times = 2 + world_.pick(4);
  Instant at{};
  for (std::uint64_t i = 0; i < times; ++i) {
    later(at += some_time(seconds(1)), [this, node] { world_.cut_node(node); });
    later(at += some_time(seconds(5)), [this, node] { world_.heal_node(node); });
  }
  later(at + seconds(5), [this] { node_is_away_ = false; });
}

void FaultHistory::lose_node() {
  std::string node;
  if (!take_node(node)) return;
  world_.lose_node(node);
  later(some_time(seconds(10)), [this, node] {
    world_.return_node(node);
    later(seconds(5), [this] { node_is_away_ = false; });
  });
}

// The node whose disk has the newest saved state of a job goes away, and all workers die. Older
// states may be on the disks of nodes that are there.
void FaultHistory::hide_newest_state() {
  std::string node;
  Version newest = 0;
  const auto records = world_.disk().load_all();
  for (const auto& record : records.value())
    for (const auto& state : record.checkpoints)
      if (!is_over(record.state) && state.version > newest && !state.nodes.empty()) {
        newest = state.version;
        node = *state.nodes.begin();
      }
  if (node.empty() || std::exchange(node_is_away_, true)) return;
  ++report_.done["hidden state"];
  world_.lose_node(node);
  kill_all();
  later(seconds(5) + some_time(seconds(10)), [this, node] {
    world_.return_node(node);
    later(seconds(5), [this] { node_is_away_ = false; });
  });
}

// The machine is suspended with all its processes.
void FaultHistory::freeze_node() {
  std::string node;
  if (!take_node(node)) return;
  std::vector<Incarnation> workers;
  for (const auto& [device, worker] : world_.cluster().running)
    if (device.node == node) workers.push_back(worker);
  world_.cut_node(node);
  for (const Incarnation worker : workers) world_.freeze_worker(worker);
  later(some_time(seconds(10)), [this, node, workers] {
    world_.heal_node(node);
    for (const Incarnation worker : workers) world_.wake_worker(worker);
    later(seconds(5), [this] { node_is_away_ = false; });
  });
}

void FaultHistory::kill_head() {
  if (!world_.head_runs()) return;
  world_.stop_head();
  later(some_time(world_.pick(2) == 0 ? milliseconds(50) : seconds(4)),
        [this] { world_.start_head(); });
}

// Between two effects of one event. Mainly planned and unplanned changes write other records than
// lines.
void FaultHistory::trap_disk() {
  world_.trap_disk(static_cast<std::uint32_t>(1 + world_.pick(4)));
  world_.pick(2) == 0 ? scale() : kill_one();
}

// Also between two effects of one event. Until then, and meanwhile, nothing is journaled.
void FaultHistory::fill_disk() {
  world_.fill_disk(static_cast<std::uint32_t>(1 + world_.pick(6)));
  if (world_.pick(2) == 0) world_.pick(2) == 0 ? scale() : kill_one();
  later(some_time(world_.pick(2) == 0 ? milliseconds(500) : seconds(12)), [this] {
    if (world_.disk_trap().failed > disk_failures_) ++report_.done["wrote to a full disk"];
    disk_failures_ = world_.disk_trap().failed;
    world_.mend_disk();
  });
}

}  // namespace

HistoryReport run_fault_history(std::uint64_t seed) {
  return FaultHistory(seed).run();
}

}  // namespace es::test
