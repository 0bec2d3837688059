#pragma once
// One job in one process: a JobCore, its WorkerCores with toy engines, a network with one
// FIFO queue for each direction of each pair, and simple node agents and a simple cluster
// scheduler. A seed decides the order of events. The same seed gives the same history.
//
// Throws Violation as soon as an invariant of the protocol is broken.
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/head/intra_job/core/job_core.h"
#include "actors/worker/core/worker_core.h"
#include "tests/actors/base/protocol/toy_engine.h"

namespace es::test {

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Types "a", "b", ... with these numbers of devices, all on one node. The workers of a node that
// cannot share memory have several hosts.
struct SimOptions {
  std::uint64_t seed = 1;
  std::uint32_t max_p = 4;
  std::uint32_t bucket_count = 2;
  std::uint32_t hosts = 1;
  Version steps = 6;
  Version eval_every = 0;
  bool sharded = false;  // Two members hold the moments of each bucket.
  std::vector<std::pair<std::string, std::uint32_t>> inventory = {{"a", 3}};
  std::string stages;  // Empty: the cluster chooses the devices.
  // How often something happens, at random times.
  int crashes = 0;  // A process dies. The messages that it has sent may arrive or not.
  // A process stops. It is declared lost, and may continue before it is reaped.
  int freezes = 0;
  int failed_starts = 0;  // A process dies before or after its Hello.
  int cuts = 0;           // Two workers lose each other, and both still reach the head.
  int lost_messages = 0;  // A message between workers is lost.
  int head_restarts = 0;  // The head restarts. Its received and its unsent messages are lost.
  int reallocations = 0;  // The cluster gives other devices.
  int scales = 0;
  int checkpoints = 0;
  Version periodic = 0;  // The number of versions between checkpoints of the job's own series.
  int damages = 0;       // A checkpoint on the disk becomes unreadable.
  int pauses = 0;        // The job is paused, and resumed when the system is at rest.
  int drains = 0;        // The devices of the job are about to end.
  bool cancel = false;
  int bit_flips = 0;    // A bit of a replica flips without notice.
  JobSpec decisions{};  // Its schedule, stop and checkpoint.keep_best are those of the job.
};

class Simulation {
 public:
  explicit Simulation(SimOptions options);
  // Runs until the job has ended and the system is at rest.
  void run();

  const actors::intra_job::JobCore& head() const { return *head_; }
  JobState state() const { return head_->state(); }
  // The lines as the ledger on disk has them.
  const std::vector<actors::protocol::LedgerLine>& ledger() const { return ledger_; }
  const ToyJob& job() const { return job_; }
  const std::map<Version, actors::protocol::Bytes>& evaluated() const { return evaluated_; }
  // As the journal has it.
  const std::optional<CheckpointRef>& best() const { return journal_.best; }
  const std::map<std::string, ToyVersion>& checkpoints() const { return checkpoints_; }
  actors::Instant now() const { return now_; }
  std::size_t processes_started() const { return processes_.size(); }
  // How often each notable situation was reached, by name.
  const std::map<std::string, int>& marks() const { return marks_; }

 private:
  using Message = std::variant<actors::protocol::HeadMessage, actors::protocol::WorkerMessage,
                               actors::protocol::PeerMessage>;
  struct Process {
    DeviceId device;
    std::unique_ptr<actors::worker::WorkerCore> core;
    std::unique_ptr<ToyEngine> engine;
    enum class Life { kStarting, kRunning, kFrozen, kGone } life = Life::kStarting;
    bool kill_ordered = false;
    bool orphan = false;  // It belongs to an earlier head.
    bool wrong = false;   // A bit of its replica was flipped.
  };
  using Channel = std::pair<std::uint64_t, std::uint64_t>;  // From and to; 0 is the head.
  using Action = std::function<void()>;

  // The events that can happen next (simulation.cc).
  std::vector<Action> possible();
  void add_deliveries(std::vector<Action>& actions);
  void add_processes(std::vector<Action>& actions);
  void deliver(Channel channel);
  void start_process(std::uint64_t incarnation);
  void at_rest();

  // Effects (simulation_effects.cc).
  void perform_head(actors::intra_job::Effects effects);
  void perform(const actors::intra_job::Effect& effect);
  void perform_one(const actors::intra_job::SaveRecord& effect);
  void perform_one(const actors::intra_job::StartWorker& effect);
  void perform_one(const actors::intra_job::KillWorker& effect);
  void perform_one(const actors::intra_job::SendWorker& effect);
  void perform_one(const actors::intra_job::Demand& effect);
  void perform_one(const actors::intra_job::DemandLifted& effect);
  void perform_one(const actors::intra_job::BoundToType&) {}  // All of its devices have one type.
  void perform_one(const actors::intra_job::DeviceReleased& effect);
  void perform_one(const actors::intra_job::FindStates& effect);
  void perform_one(const actors::intra_job::LedgerLineAdded& effect);
  void perform_one(const actors::intra_job::EvaluationAdded& effect);
  void perform_one(const actors::intra_job::CommandDone& effect);
  void perform_one(const actors::intra_job::CheckpointDone& effect);
  void perform_one(const actors::intra_job::JobEnded& effect);
  bool process_on(const DeviceId& device) const;
  void perform_worker(std::uint64_t self, actors::worker::Effects effects);
  void send(std::uint64_t from, std::uint64_t to, Message message);
  void check_head_message(std::uint64_t to, const actors::protocol::HeadMessage& message);
  void check_go(Generation generation);
  bool lost_a_shard() const;
  bool holds(const Process& process, const actors::protocol::Install& install) const;
  void check_decided(const actors::protocol::Decided& decided);
  void check_ledger(const actors::protocol::LedgerLine& line);
  void end_process(std::uint64_t incarnation);
  void restart_head();
  void say_hello(std::uint64_t incarnation);
  void allocate(std::set<DeviceId> devices, bool urgent = false);
  void serve_demand(const std::optional<DeviceSet>& demand);
  actors::intra_job::Services services();
  actors::intra_job::Config config() const;

  // Faults (simulation_faults.cc).
  void maybe_disturb();
  void crash();
  void freeze();
  void cut();
  void lose_message();
  void reallocate();
  void scale();
  void drain();
  std::vector<std::uint64_t> alive() const;

  std::uint64_t pick(std::uint64_t below);
  bool chance(unsigned percent) { return pick(100) < percent; }
  void mark(const std::string& what) { ++marks_[what]; }
  [[noreturn]] void violated(const std::string& what) const;
  Process& process(std::uint64_t incarnation) { return processes_.at(incarnation); }
  bool lives(std::uint64_t incarnation) const;

  SimOptions options_;
  ToyJob job_;
  std::mt19937_64 random_;
  actors::Instant now_{};
  int quiet_rounds_ = 0;
  std::uint64_t actions_ = 0;

  std::unique_ptr<actors::intra_job::JobCore> head_;
  JobRecord journal_;
  std::vector<actors::protocol::LedgerLine> ledger_;
  std::map<Version, actors::protocol::Bytes> evaluated_;  // Totals.
  bool restart_in_effects_ = false;
  bool ended_ = false;
  std::uint64_t next_incarnation_ = 1;
  std::uint64_t next_request_ = 1;
  std::set<std::uint64_t> open_requests_;

  std::map<std::uint64_t, Process> processes_;
  std::shared_ptr<ToyEngine::GoneParts> gone_parts_ = std::make_shared<ToyEngine::GoneParts>();
  std::map<Channel, std::deque<Message>> channels_;
  std::deque<actors::intra_job::Event> from_nodes_, from_cluster_, from_clients_;
  std::set<Channel> cut_;                          // A pair stands for both directions.
  std::map<std::string, ToyVersion> checkpoints_;  // The checkpoints on the disk.
  std::set<std::string> damaged_;

  // The cluster scheduler.
  std::set<DeviceId> inventory_;
  std::set<DeviceId> granted_;  // The devices that the job may use.
  // The devices that are granted, or revoked and not yet released.
  std::set<DeviceId> occupied_;
  std::uint64_t sequence_ = 0;
  std::uint64_t releases_seen_ = 0;
  std::optional<DeviceSet> demand_;

  // For the invariants.
  std::map<std::uint64_t, actors::protocol::Install> installs_;  // By generation.
  std::uint64_t go_generation_ = 0;
  std::set<std::uint64_t> last_members_;  // The members of the last generation that started.
  std::vector<actors::protocol::Holders> last_holders_;
  std::set<std::uint64_t> given_up_;  // Processes that crashed or were declared lost.
  Version newest_commit_ = 0;
  std::map<std::string, int> faults_left_;
  std::map<std::string, int> marks_;
};

}  // namespace es::test
