#include "actors/sim/shell/simulation.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <time.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "actors/base/protocol/core/instant.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_actor.h"
#include "actors/sim/shell/history_hash.h"
#include "proto/base/check_ok.h"
#include "store/kv/memory_key_value_store.h"

namespace es::actors::simulator {
namespace {

using WallClock = std::chrono::steady_clock;

constexpr std::uint64_t kEventsBetweenReports = 2000;
// Limit of messages that are handled while no time passes. More would mean that actors send
// messages to each other forever.
constexpr std::uint64_t kEventsAtOnceMax = 50'000'000;
// If nothing is held or submitted for this time, the remaining jobs would wait forever.
constexpr double kStuckAfterS = 86'400;
constexpr Instant kStepsPatience = std::chrono::hours(24);

// A path that cannot exist.
constexpr const char* kNowhere = "/dev/null/simulated";

// A checkpoint after every `every_s` seconds of training with one EST on each device of the fastest
// type.
CheckpointSpec checkpoint_spec(const WorkJob& job, double every_s) {
  if (every_s <= 0) return {};
  double fastest = 0;
  for (const auto& [type, steps_per_s] : job.capabilities) fastest = std::max(fastest, steps_per_s);
  const double steps = std::max(1.0, std::ceil(every_s * fastest));
  return {.every_steps = static_cast<std::uint64_t>(steps), .directory = kNowhere};
}

Result<AdmittedJob> look_up(const Workload& workload, double checkpoint_s,
                            const std::string& number) {
  std::size_t index = 0;
  std::from_chars(number.data(), number.data() + number.size(), index);
  const WorkJob& job = workload.jobs.at(index);
  AdmittedJob admitted;
  admitted.spec_toml = number;
  admitted.config.spec = job.spec;
  admitted.config.spec.checkpoint = checkpoint_spec(job, checkpoint_s);
  admitted.config.last_version = job.spec.steps;
  admitted.config.sparse_ledger = true;
  // Simulated workers keep no ledger lines, so acknowledgements would be messages without effect.
  admitted.config.acknowledge_every = std::numeric_limits<Version>::max() / 2;
  admitted.config.drain_timeout = kStepsPatience;  // members stop when their step ends
  admitted.model_key = job.model_key;
  return admitted;
}

Status teach_speeds(const Workload& workload, store::PlanStore& plans) {
  std::set<std::pair<std::string, std::uint32_t>> known;
  for (const WorkJob& job : workload.jobs) {
    if (!known.emplace(job.model_key, job.spec.batch_size).second) continue;
    for (const auto& [type, steps_per_s] : job.capabilities)
      ES_RETURN_IF_ERROR(
          plans.save_capability(job.model_key, job.spec.batch_size, {type, steps_per_s, 1}));
  }
  return {};
}

// Processor time of this thread, which is the cost of a decision whatever else the machine does.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::nanoseconds(std::llround(seconds * 1e9));
}

// One head and its world. This scheduler of CAF runs one actor for one message at a time, on this
// thread.
class Machine {
 public:
  Machine(const Workload& workload, const SimulationOptions& options)
      : workload_(workload),
        options_(options),
        recorder_(workload.cluster, workload.jobs.size()),
        store_(std::make_shared<HeadStore>(std::make_unique<store::MemoryKeyValueStore>())) {
    config_.set("scheduler.policy", caf::atom("testing"));
    system_.emplace(config_);
    system_->await_actors_before_shutdown(false);
    scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
    if (!options.world.learns_speeds)
      ES_CHECK_OK(teach_speeds(workload, store_->plans()), "plans in memory");
    const auto world = system_->spawn(world_actor, &workload_, options_.world, &recorder_);
    world_ = caf::actor_cast<caf::actor>(world);
    auto* typed = caf::actor_cast<caf::abstract_actor*>(world_);
    world_state_ = &dynamic_cast<caf::stateful_actor<WorldState>&>(*typed).state;
    head_ = system_->spawn(cluster_scheduler_actor, head_options(), world_, store_);
    caf::anon_send(world_, BeginWorld{head_});
  }

  ~Machine() {
    scheduler_->clock().cancel_all();
    for (const caf::actor& actor : {head_, world_})
      caf::anon_send_exit(actor, caf::exit_reason::kill);
    head_ = world_ = {};
    while (scheduler_->try_run_once()) {
    }
    scheduler_->clock().cancel_all();
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  SimulationResult run() {
    const auto begin = WallClock::now();
    while (world_state_->finished() < workload_.jobs.size() && !is_stuck()) {
      if (step()) continue;
      // Time passes only when no message is waiting. Messages therefore take no time, and equal
      // inputs give the same order of events.
      if (!scheduler_->has_pending_timeout()) break;
      scheduler_->trigger_timeout();
      events_at_once_ = 0;
    }
    result_.wall_s = std::chrono::duration<double>(WallClock::now() - begin).count();
    return finish();
  }

 private:
  ClusterSchedulerOptions head_options() {
    ClusterSchedulerOptions options;
    options.checkpoint_dir = kNowhere;
    options.unix_ms = [] { return std::uint64_t{0}; };
    options.on_stopped = [] {};
    options.make_policy = [this]() -> std::unique_ptr<scheduler::Policy> {
      auto policy = scheduler::make_policy(options_.policy, options_.policy_options).value();
      if (options_.watch_policy) policy = options_.watch_policy(std::move(policy));
      if (options_.knowledge.is_perfect()) return policy;
      return std::make_unique<KnowledgePolicy>(std::move(policy), options_.knowledge);
    };
    if (options_.explains_waits)
      options.watch_decisions = [this](const ClusterCore& core) { explain_waits(core); };
    options.limits.queues = options_.queues;
    options.limits.share_half_life_s = options_.share_half_life_s;
    options.limits.prices = options_.world.prices;
    options.decision_delay = nanoseconds_of(options_.round_s);
    options.start_pause = nanoseconds_of(options_.world.start_s);
    options.rescale_pause = nanoseconds_of(options_.world.rescale_s);
    options.suspend_pause = nanoseconds_of(options_.world.suspend_cost_s());
    options.keep_past_jobs = false;
    options.admit = [this](const std::string& text, const std::string&) {
      return look_up(workload_, options_.checkpoint_s, text);
    };
    return options;
  }

  Instant now() { return scheduler_->clock().now().time_since_epoch(); }

  bool step() {
    if (!scheduler_->has_job()) return false;
    ES_CHECK_MSG(++events_at_once_ < kEventsAtOnceMax,
                 "actors send each other messages without end while no time passes");
    bool decides = false;
    if (auto* actor = dynamic_cast<caf::scheduled_actor*>(scheduler_->jobs.front())) {
      if (const auto* message = actor->mailbox().peek()) {
        hash_.add(now(), actor->id(), *message);
        if (options_.watch) options_.watch(now(), actor->id(), *message);
        // Only the request to ask the policy has this form in the head.
        decides = actor->id() == head_.id() &&
                  message->content().match_elements<caf::atom_value, double>();
      }
    }
    if (hash_.count() % kEventsBetweenReports == 0 && options_.progress)
      options_.progress(world_state_->finished(), workload_.jobs.size(), in_seconds(now()));
    return decides ? timed_step() : scheduler_->try_run_once();
  }

  // Other jobs are not named, because the first one in an order changes all the time.
  void explain_waits(const ClusterCore& core) {
    const double begin = thread_seconds();
    std::map<std::size_t, std::string> reasons;
    if (recorder_.waiting() > 0)
      for (const auto& [id, text] : core.waits([](const JobId&) { return false; }))
        if (const auto job = world_state_->job_of(id)) reasons[*job] = text.what;
    recorder_.explain(reasons, in_seconds(now()));
    explaining_s_ += thread_seconds() - begin;
  }

  bool timed_step() {
    const double begin = thread_seconds();
    explaining_s_ = 0;  // is within the decision, and is no part of it
    const bool ran = scheduler_->try_run_once();
    decision_s_.push_back(static_cast<float>(thread_seconds() - begin - explaining_s_));
    return ran;
  }

  bool is_stuck() {
    const double now_s = in_seconds(now());
    if (!world_state_->is_idle()) idle_since_s_ = now_s;
    // A lost node may return after repair_s and let a waiting job start.
    return now_s > idle_since_s_ + kStuckAfterS + options_.world.repair_s;
  }

  void sum_up_decisions() {
    result_.decisions = decision_s_.size();
    if (decision_s_.empty()) return;
    for (const float seconds : decision_s_) result_.decision_s += seconds;
    result_.decision_max_s = *std::max_element(decision_s_.begin(), decision_s_.end());
    const auto p99 =
        decision_s_.begin() + static_cast<std::ptrdiff_t>(decision_s_.size() * 99 / 100);
    // It changes the order of the values, so it comes last.
    std::nth_element(decision_s_.begin(), p99, decision_s_.end());
    result_.decision_p99_s = *p99;
  }

  SimulationResult finish() {
    result_.policy = options_.policy;
    sum_up_decisions();
    recorder_.finish(in_seconds(now()));
    result_.jobs = recorder_.jobs();
    result_.types = recorder_.types();
    result_.samples = recorder_.samples();
    result_.spans = recorder_.spans().spans();
    result_.wait_reasons = recorder_.spans().reasons();
    result_.held_device_s = recorder_.held_device_s();
    result_.computing_device_s = recorder_.computing_device_s();
    result_.many_nodes_device_s = recorder_.many_nodes_device_s();
    result_.many_racks_device_s = recorder_.many_racks_device_s();
    result_.events = hash_.count();
    result_.unfinished =
        static_cast<std::uint32_t>(workload_.jobs.size()) - world_state_->finished();
    result_.refused = world_state_->refused();
    result_.first_refusal = world_state_->first_refusal();
    result_.failures = world_state_->failures();
    result_.stragglers = world_state_->stragglers();
    result_.history_hash = hash_.value();
    return std::move(result_);
  }

  const Workload& workload_;
  const SimulationOptions& options_;
  Recorder recorder_;
  std::shared_ptr<HeadStore> store_;
  caf::actor_system_config config_;
  std::optional<caf::actor_system> system_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  caf::actor head_, world_;
  WorldState* world_state_ = nullptr;
  HistoryHash hash_;
  SimulationResult result_;
  std::vector<float> decision_s_;  // processor time of each
  double explaining_s_ = 0;        // processor time of explain_waits()
  std::uint64_t events_at_once_ = 0;
  double idle_since_s_ = 0;
};

}  // namespace

Result<SimulationResult> simulate(const Workload& workload, const SimulationOptions& options) {
  const auto policy = scheduler::make_policy(options.policy, options.policy_options);
  if (!policy) return policy.error();
  return Machine(workload, options).run();
}

}  // namespace es::actors::simulator
