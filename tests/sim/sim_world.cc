#include "tests/sim/sim_world.h"

#include <caf/all.hpp>

#include <stdexcept>

#include "actors/base/job_file/job_file.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/node/shell/node_agent_actor.h"
#include "actors/worker/shell/worker_actor.h"
#include "tests/scheduler/policy/watched_policy.h"
#include "tests/sim/sim_gateway.h"
#include "tests/sim/sim_node.h"

namespace es::test {

using namespace actors;

namespace {

// Longer than any job of the tests takes.
constexpr Instant kPatience = std::chrono::minutes(20);

std::shared_ptr<store::MemoryKeyValueStore> copy_of(const store::KeyValueStore& values) {
  store::WriteBatch batch;
  const Status scanned = values.scan("", "\xff", [&](std::string_view key, std::string_view value) {
    batch.put(std::string(key), std::string(value));
    return true;
  });
  auto copy = std::make_shared<store::MemoryKeyValueStore>();
  ES_CHECK(scanned.ok() && copy->write(batch, store::Durability::kBuffered).ok());
  return copy;
}

// Messages that are handled without any time passing. A busy moment has a few hundred.
constexpr std::uint64_t kMessagesAtOnceMax = 100'000;

// The state that outlives a head: each head opens the same disk.
class Disk final : public store::KeyValueStore {
 public:
  Disk(std::shared_ptr<store::MemoryKeyValueStore> values, std::shared_ptr<DiskTrap> trap)
      : values_(std::move(values)), trap_(std::move(trap)) {}
  Result<std::optional<std::string>> get(std::string_view key) const override {
    return values_->get(key);
  }
  Status write(const store::WriteBatch& batch, store::Durability durability) override {
    ++trap_->writes;
    if (trap_->fails_at > 0 && --trap_->fails_at == 0) trap_->fails_now = true;
    if (const Status well = recover(); !well.ok()) return ++trap_->failed, well;
    if (trap_->writes_left > 0 && --trap_->writes_left == 0) {
      // The head runs to the end of this message, and writes to a copy of its disk that is dropped.
      values_ = copy_of(*values_);
      trap_->on_death();
    }
    const Status written = values_->write(batch, durability);
    const auto is_job = [](const auto& change) {
      return change.key.starts_with(std::string_view("job\0", 4));
    };
    if (std::ranges::any_of(batch.changes(), is_job)) trap_->on_job_written();
    return written;
  }
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override {
    return values_->scan(begin, end, visit);
  }
  Result<std::optional<store::KeyValue>> last(std::string_view begin,
                                              std::string_view end) const override {
    return values_->last(begin, end);
  }
  Status sync() override { return recover(); }
  Status recover() override {
    if (trap_->fails_now) return failure("the simulated disk is full");
    return {};
  }

 private:
  std::shared_ptr<store::MemoryKeyValueStore> values_;
  std::shared_ptr<DiskTrap> trap_;
};

// Without the data set and the model, which the toy engine does not have.
Result<AdmittedJob> admit_toy(const std::string& spec_toml, const std::string&) {
  auto spec = parse_job(spec_toml, "submitted job");
  if (!spec) return spec.error();
  if (spec->steps == 0)
    for (const Stage& stage : spec->stages) spec->steps += stage.steps;
  AdmittedJob job;
  job.spec_toml = to_toml(*spec);
  job.config.spec = *std::move(spec);
  job.config.last_version = job.config.spec.steps;
  job.config.bucket_count = kToyBuckets;
  if (job.config.spec.shard.state == "on") job.config.shards.assign(kToyBuckets, 1);
  job.model_key = "toy";
  return job;
}

}  // namespace

SimWorld::SimWorld(SimWorldOptions options) : options_(std::move(options)), random_(options_.seed) {
  cluster_->step_time = {{"cpu-scalar", std::chrono::milliseconds(40)},
                         {"cpu-avx2", std::chrono::milliseconds(10)},
                         {"cpu-avx512", std::chrono::milliseconds(6)}};
  cluster_->newest_saved = [this](const JobId& job, Generation generation) {
    return newest_saved(job, generation);
  };
  config_.set("scheduler.policy", caf::atom("testing"));
  system_.emplace(config_);
  system_->await_actors_before_shutdown(false);
  scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  gateway_ = system_->spawn(sim_gateway_actor, random_(),
                            [this](const PeerId& peer, bool freeze) { on_caught(peer, freeze); });
  disk_trap_->on_job_written = [this] { remember_saved(); };
  disk_trap_->on_death = [this] { disturb(SilenceHead{}); };
  start_head();
  const auto inbox = std::make_shared<SimClient::Inbox>();
  client_actor_ = system_->spawn(sim_client_actor, gateway_, inbox);
  caf::anon_send(gateway_, OpenPeer{"client/1", client_actor_, "client"});
  client_.emplace(client_actor_, inbox, [this](const std::function<bool()>& holds) {
    if (!run_until(holds, kPatience)) throw std::runtime_error("the simulated world hangs");
  });
  for (const auto& [name, devices] : options_.nodes) start_node(name);
  run_for(std::chrono::milliseconds(10));
}

SimWorld::~SimWorld() {
  scheduler_->clock().cancel_all();
  for (auto& [name, node] : nodes_) caf::anon_send(node, LoseNode{});
  for (const caf::actor& actor : {head_, client_actor_, gateway_})
    if (actor) caf::anon_send_exit(actor, caf::exit_reason::kill);
  nodes_.clear();
  head_ = client_actor_ = gateway_ = {};
  client_.reset();
  while (scheduler_->try_run_once()) {
  }
  scheduler_->clock().cancel_all();
}

Instant SimWorld::now() {
  return scheduler_->clock().now().time_since_epoch();
}

// One actor handles one message.
bool SimWorld::step() {
  if (!scheduler_->has_job()) return false;
  messages_now_ = now() == last_step_ ? messages_now_ + 1 : 0;
  last_step_ = now();
  if (messages_now_ > kMessagesAtOnceMax)
    throw std::runtime_error("actors send each other messages without end while no time passes");
  if (auto* actor = dynamic_cast<caf::scheduled_actor*>(scheduler_->jobs.front()))
    if (const auto* message = actor->mailbox().peek()) history_.add(now(), actor->id(), *message);
  return scheduler_->try_run_once();
}

bool SimWorld::run_until(const std::function<bool()>& holds, Instant limit) {
  const Instant end = now() + limit;
  while (true) {
    if (holds()) return true;
    if (step()) continue;
    if (now() >= end || !scheduler_->has_pending_timeout()) return false;
    scheduler_->trigger_timeout();
  }
}

void SimWorld::run_for(Instant duration) {
  run_for(duration, [] { return false; });
}

void SimWorld::run_for_or_caught(Instant duration) {
  run_for(duration, [this] { return caught_.has_value(); });
}

// A timer makes the time pass even when nothing else happens.
void SimWorld::run_for(Instant duration, const std::function<bool()>& or_until) {
  const auto over = std::make_shared<bool>(false);
  const auto timer = system_->spawn([=](caf::event_based_actor* self) {
    self->delayed_send(self, duration, 0);
    return caf::behavior{[=](int) {
      *over = true;
      self->quit();
    }};
  });
  run_until([&] { return *over || or_until(); }, duration * 2);
}

// The states that the journal has named once. A head that gives a state up removes it from the
// journal before it has an older one loaded, so the journal at that time proves nothing.
void SimWorld::remember_saved() {
  const auto records = disk().load_all();
  for (const JobRecord& record : records.value())
    for (const CheckpointRef& state : record.checkpoints)
      for (const std::string& node : state.nodes)
        saved_once_[record.id].insert({state.version, node, state.path});
}

// A node that is away still has its disk.
std::optional<Version> SimWorld::newest_saved(const JobId& job, Generation generation) {
  std::optional<Version> newest;
  const auto record = disk().load(job);
  if (record.value()->generation > generation) return newest;
  for (const auto& [version, node, path] : saved_once_[job]) {
    const auto& on_disk = cluster_->disk_of(node);
    const auto found = on_disk.find(path);
    if (found != on_disk.end() && found->second.version == version)
      newest = std::max(newest, std::optional(version));
  }
  return newest;
}

Instant SimWorld::random_time(Instant least, Instant most) {
  return least + Instant(pick(static_cast<std::uint64_t>((most - least).count() + 1)));
}

std::vector<Incarnation> SimWorld::running() const {
  std::vector<Incarnation> running;
  for (const auto& [incarnation, job] : cluster_->job_of) running.push_back(incarnation);
  return running;
}

void SimWorld::start_node(const std::string& name) {
  nodes_[name] = system_->spawn(
      sim_node_actor,
      SimNodeOptions{name, parse_device_set(options_.nodes.at(name)).value(), random_()}, gateway_,
      cluster_);
}

void SimWorld::crash_worker(Incarnation incarnation) {
  for (const auto& [name, node] : nodes_) caf::anon_send(node, CrashWorker{incarnation});
}

void SimWorld::lose_node(const std::string& name) {
  caf::anon_send(nodes_.at(name), LoseNode{});
  nodes_.erase(name);
}

void SimWorld::end_daemon(const std::string& name) {
  caf::anon_send(nodes_.at(name), EndDaemon{});
  nodes_.erase(name);
}

void SimWorld::return_node(const std::string& name) {
  start_node(name);
}

void SimWorld::cut_node(const std::string& name, bool out, bool in) {
  disturb(BlockSite{name, out, in});
}

void SimWorld::heal_node(const std::string& name) {
  disturb(BlockSite{name, false, false});
}

void SimWorld::freeze_worker(Incarnation incarnation) {
  for (const auto& [name, node] : nodes_) caf::anon_send(node, FreezeWorker{incarnation});
}

void SimWorld::wake_worker(Incarnation incarnation) {
  for (const auto& [name, node] : nodes_) caf::anon_send(node, WakeWorker{incarnation});
}

// The trap of the gateway. The process itself is handled here.
void SimWorld::on_caught(const PeerId& peer, bool freeze) {
  caught_ = {peer, freeze};
  for (const Incarnation incarnation : running()) {
    if (peer != worker_peer(incarnation)) continue;
    freeze ? freeze_worker(incarnation) : crash_worker(incarnation);
  }
}

HeadStore SimWorld::disk() const {
  return HeadStore(std::make_unique<Disk>(disk_, disk_trap_));
}

void SimWorld::stop_head() {
  caf::anon_send_exit(head_, caf::exit_reason::kill);
  caf::anon_send(gateway_, ClosePeer{"head"});
  head_ = {};
  while (step()) {
  }
}

void SimWorld::start_head() {
  disk_trap_->writes_left = 0;
  ClusterSchedulerOptions options;
  options.unix_ms = [this] {
    constexpr std::uint64_t kSomeDate = 1'700'000'000'000;
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(now()).count();
    return options_.has_date ? kSomeDate + static_cast<std::uint64_t>(since) : 0;
  };
  options.retention = options_.retention;
  options.on_stopped = [] {};
  options.on_unreadable = [](const Error& error) { throw std::runtime_error(error.message); };
  options.make_policy = [this] {
    return std::make_unique<WatchedPolicy>(scheduler::make_policy(options_.policy).value(),
                                           cluster_->violations);
  };
  options.admit = admit_toy;
  head_ = system_->spawn(cluster_scheduler_actor, std::move(options), gateway_,
                         std::make_shared<HeadStore>(std::make_unique<Disk>(disk_, disk_trap_)));
  caf::anon_send(gateway_, OpenPeer{"head", head_, "head"});
}

}  // namespace es::test
