#include "tests/actors/base/protocol/simulation.h"

#include <algorithm>

namespace es::test {

using namespace actors;
using namespace actors::protocol;
using intra_job::JobCore;

Simulation::Simulation(SimOptions options) : options_(std::move(options)), random_(options_.seed) {
  job_ = {.seed = options_.seed,
          .max_p = options_.max_p,
          .bucket_count = options_.bucket_count,
          .last_version = options_.steps,
          .spec = options_.decisions};
  job_.spec.eval_every = options_.eval_every;
  for (const auto& [type, count] : options_.inventory) {
    for (std::uint32_t i = 0; i < count; ++i) inventory_.insert({"node", {type}, i});
  }
  faults_left_ = {{"crash", options_.crashes},
                  {"freeze", options_.freezes},
                  {"failed start", options_.failed_starts},
                  {"cut", options_.cuts},
                  {"lost message", options_.lost_messages},
                  {"head restart", options_.head_restarts},
                  {"reallocation", options_.reallocations},
                  {"scale", options_.scales},
                  {"checkpoint", options_.checkpoints},
                  {"damage", options_.damages},
                  {"pause", options_.pauses},
                  {"drain", options_.drains},
                  {"cancel", options_.cancel ? 1 : 0}};

  head_ = std::make_unique<JobCore>(config(), services());
}

intra_job::Config Simulation::config() const {
  intra_job::Config config;
  config.spec.max_p = options_.max_p;
  config.spec.eval_every = options_.eval_every;
  config.spec.schedule = options_.decisions.schedule;
  config.spec.stop = options_.decisions.stop;
  config.spec.checkpoint.keep_best = options_.decisions.checkpoint.keep_best;
  if (!options_.stages.empty()) config.spec.stages = parse_stages(options_.stages).value();
  config.last_version = options_.steps;
  config.bucket_count = options_.bucket_count;
  if (options_.sharded) config.shards.assign(options_.bucket_count, 1);
  config.acknowledge_every = 2;
  config.spec.checkpoint.every_steps = options_.periodic;
  config.spec.checkpoint.keep = 2;
  config.checkpoint_directory = "series";
  config.suspend_prefix = "suspended-";
  config.spec.level = DeterminismLevel::kD2;  // Devices of several types.
  return config;
}

// The division is uneven on purpose: the first device gets the remainder.
intra_job::Services Simulation::services() {
  return {.next_incarnation = [this] { return Incarnation{next_incarnation_++}; },
          .assign_ranks =
              [](std::uint32_t max_p, const std::vector<DeviceId>& devices) {
                std::vector<RankRange> ranges;
                const auto n = static_cast<std::uint32_t>(devices.size());
                VirtualRank next = 0;
                for (std::uint32_t d = 0; d < n; ++d) {
                  const std::uint32_t size = max_p / n + (d == 0 ? max_p % n : 0);
                  ranges.push_back({next, next + size});
                  next += size;
                }
                return ranges;
              },
          .metrics = [](const Bytes& totals) -> MetricValue {
            return [totals](const std::string& metric) { return toy_metric(totals, metric); };
          }};
}

std::uint64_t Simulation::pick(std::uint64_t below) {
  return random_() % below;
}

void Simulation::violated(const std::string& what) const {
  throw Violation("seed " + std::to_string(options_.seed) + ", action " + std::to_string(actions_) +
                  ": " + what);
}

bool Simulation::lives(std::uint64_t incarnation) const {
  const auto found = processes_.find(incarnation);
  return found != processes_.end() && found->second.life != Process::Life::kGone;
}

void Simulation::run() {
  if (options_.stages.empty()) reallocate();
  perform_head(head_->start(now_));
  perform_head(
      head_->on(intra_job::Event(intra_job::NodesPresent(std::set<std::string>{"node"})), now_));
  while (true) {
    if (++actions_ > 200'000) violated("no end in sight");
    now_ += std::chrono::milliseconds(1);
    if (!ended_) maybe_disturb();
    const std::vector<Action> actions = possible();
    if (actions.empty()) {
      if (ended_) break;
      at_rest();
      continue;
    }
    quiet_rounds_ = 0;
    actions[pick(actions.size())]();
  }
  for (const auto& [incarnation, process] : processes_) {
    if (process.life != Process::Life::kGone) violated("a process was left behind");
  }
  if (!occupied_.empty()) violated("a device was left behind");
  if (!open_requests_.empty()) violated("a command was never answered");
}

// Invariant L1: the system comes to rest only when the job has ended. Time limits are part of that.
void Simulation::at_rest() {
  if (++quiet_rounds_ > 20) {
    std::string workers;
    for (const auto& [incarnation, process] : processes_)
      if (process.life != Process::Life::kGone)
        workers += ", worker " + std::to_string(incarnation) + " in phase " +
                   std::to_string(static_cast<int>(process.core->phase())) + " at version " +
                   std::to_string(process.core->version().value_or(0));
    violated("hangs: head phase " + std::to_string(static_cast<int>(head_->phase())) + ", state " +
             state_name(head_->state()) + ", ledger through " + std::to_string(ledger_.size()) +
             ", waits for \"" + head_->waiting_for() + "\"" + workers);
  }
  if (head_->state() == JobState::kPaused) {
    open_requests_.insert(next_request_);
    from_clients_.push_back(intra_job::ResumeCommand{next_request_++});
    return;
  }
  if (head_->waiting_for().starts_with("a decision")) {
    mark("a loss was accepted");
    open_requests_.insert(next_request_);
    from_clients_.push_back(intra_job::ResumeCommand{next_request_++, true});
    return;
  }
  if (options_.stages.empty() && !demand_ && granted_.empty()) {
    reallocate();
    return;
  }
  // A device may have become free without a message to the job.
  if (demand_) serve_demand(demand_);
  mark("a time limit was needed");
  now_ += std::chrono::seconds(31);
  for (auto& [incarnation, process] : processes_) {
    if (process.life == Process::Life::kRunning) {
      perform_worker(incarnation, process.core->tick(now_));
    }
  }
  perform_head(head_->tick(now_));
}

std::vector<Simulation::Action> Simulation::possible() {
  std::vector<Action> actions;
  add_deliveries(actions);
  add_processes(actions);
  for (auto* queue : {&from_nodes_, &from_cluster_, &from_clients_}) {
    if (queue->empty()) continue;
    actions.push_back([this, queue] {
      const intra_job::Event event = queue->front();
      queue->pop_front();
      perform_head(head_->on(event, now_));
    });
  }
  return actions;
}

void Simulation::add_deliveries(std::vector<Action>& actions) {
  for (const auto& [channel, queue] : channels_) {
    if (queue.empty()) continue;
    const std::uint64_t to = channel.second;
    const bool hears = to == 0 || process(to).life == Process::Life::kRunning;
    if (hears) actions.push_back([this, channel = channel] { deliver(channel); });
  }
}

void Simulation::deliver(Channel channel) {
  std::deque<Message>& queue = channels_[channel];
  const Message message = std::move(queue.front());
  queue.pop_front();
  if (channel.second == 0) {
    perform_head(head_->on(std::get<WorkerMessage>(message), now_));
    return;
  }
  worker::WorkerCore& core = *process(channel.second).core;
  if (const auto* from_head = std::get_if<HeadMessage>(&message)) {
    perform_worker(channel.second, core.on(*from_head, now_));
  } else {
    perform_worker(channel.second, core.on(std::get<PeerMessage>(message), now_));
  }
}

void Simulation::add_processes(std::vector<Action>& actions) {
  for (auto& [incarnation, process] : processes_) {
    if (process.life == Process::Life::kGone) continue;
    const std::uint64_t self = incarnation;
    if (process.kill_ordered) actions.push_back([this, self] { end_process(self); });
    if (process.life == Process::Life::kStarting) {
      actions.push_back([this, self] { start_process(self); });
    }
    if (process.life == Process::Life::kFrozen) {
      actions.push_back([this, self] {
        mark("woke up");
        this->process(self).life = Process::Life::kRunning;
      });
    }
    if (process.life == Process::Life::kRunning && process.engine->busy()) {
      actions.push_back([this, self] {
        Process& worker = this->process(self);
        const worker::EngineEvent event = worker.engine->run();
        if (std::holds_alternative<worker::StepsHeldUp>(event)) mark("steps held up");
        perform_worker(self, worker.core->on(event, now_));
      });
    }
  }
}

void Simulation::start_process(std::uint64_t incarnation) {
  Process& started = process(incarnation);
  const bool fails = faults_left_["failed start"] > 0 && chance(50);
  if (fails) --faults_left_["failed start"];
  if (fails && chance(50)) {
    mark("died before Hello");
    end_process(incarnation);
    return;
  }
  started.life = Process::Life::kRunning;
  say_hello(incarnation);
  if (fails) {
    mark("died after Hello");
    given_up_.insert(incarnation);
    end_process(incarnation);
  }
}

void Simulation::say_hello(std::uint64_t incarnation) {
  perform_worker(incarnation, process(incarnation).core->hello());
}

}  // namespace es::test
