#pragma once
// World is everything outside of the head, as one actor in the place of the gateway: nodes, worker
// processes, and the client that submits the jobs of a workload. To the head it behaves like real
// processes, with these exceptions:
//
//   start      A process says Hello start_s after its job's first device was given, or at once if
//              the job has trained before.
//   training   No worker computes anything. After Go a job makes a step every f seconds, where f
//              is the largest (ranks x seconds of a local step) of its members, plus sync_s for
//              each member but one, and node_sync_s for each node and rack_sync_s for each rack but
//              one. The world sends messages only at certain versions: the last one, a checkpoint,
//              and the boundary at which members were asked to stop. So the ledger is sparse
//              (Config.sparse_ledger).
//   speeds     If they differ from what the head was told (is_measured), members report how long
//              their steps take: after every change several times, until the head can see it, and
//              then at growing intervals.
//   changes    A round takes rescale_s from Install to Ready, except a job's first round. If no
//              member holds the job's state, because it was suspended or all its workers were lost,
//              it takes suspend_cost_s().
//   processes  They end as soon as they are released or killed.
//   failures   A node is lost with its workers, after a notice if there is one, and says hello
//              again repair_s later. The head decides what a job does then. The step that was being
//              computed is lost, and so is what no worker holds and no checkpoint contains.
//
//   Accepts   Outbound from the head's actors; BeginWorld once. Its own timers.
//   Sends     Inbound and PeerDown to the head; Inbound to intra-job schedulers, as answers.
//   State     What runs where, and how far each job is. The Recorder receives every change.
//   Order     Messages are handled in the order of arrival, on one thread. All random values come
//             from the seed.
//   Fails     Never by itself. A job that the head refuses or gives up is counted as unfinished.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/sim/core/mishaps.h"
#include "actors/sim/core/recorder.h"
#include "actors/sim/shell/workload.h"
#include "proto/messages.h"
#include "scheduler/policy/common/prices.h"

namespace es::actors::simulator {

inline constexpr const char* kSimulatedClient = "client/simulation";

struct WorldOptions {
  double start_s = 20;
  double rescale_s = 1;
  std::optional<double> suspend_s;  // rescale_s if it is not set
  double sync_s = 0;  // seconds that a global step takes longer for each device but one
  std::uint32_t devices_per_node = 8;
  std::uint32_t island_devices = 0;  // of a node that are linked with each other; 0: all of them
  std::uint32_t nodes_per_rack = 0;  // 0: there are no racks
  bool hides_places = false;         // nodes do not say where they are
  // Seconds that a global step takes longer for each node but one, and for each rack but one.
  double node_sync_s = 0, rack_sync_s = 0;
  std::uint64_t seed = 0;    // of failures and of stragglers, independently
  double failure_hours = 0;  // mean hours between two losses of one node; 0 for none
  double repair_s = 3600;    // seconds until a lost node is back
  // If not 0, only this many nodes of each type are lost, the last ones, and they are spot nodes.
  std::uint32_t spot_nodes = 0;
  double notice_s = 0;          // seconds between the announcement of a loss and the loss; 0: none
  double straggler_hours = 0;   // mean hours between two slow times of one device; 0 for none
  double straggler_s = 600;     // seconds that a slow time lasts
  double straggler_factor = 3;  // factor of the duration of a local step during it
  scheduler::Prices prices;     // what devices cost
  bool learns_speeds = false;   // the head knows no speed before it was measured
  std::vector<store::TraceClaim> claims;

  double suspend_cost_s() const { return suspend_s.value_or(rescale_s); }
  bool is_measured() const {
    return sync_s > 0 || node_sync_s > 0 || rack_sync_s > 0 || straggler_hours > 0 || learns_speeds;
  }
};

struct BeginWorld {
  caf::actor head;
};

class WorldState {
 public:
  static constexpr const char* name = "world";
  void init(caf::stateful_actor<WorldState>* self, const Workload* workload, WorldOptions options,
            Recorder* recorder);
  void begin(const BeginWorld& begin);
  void on_outbound(const Outbound& outbound);
  void find_states(const PeerId& node, const Msg<wire::FindStates>& find);

  enum class Timer {
    kSubmit,
    kHello,
    kReady,
    kBoundary,
    kCheckpoint,
    kReport,
    kPace,
    kFinish,
    kClaim,
    kFail,
    kLose,
    kRepair,
    kSlow,
    kUsual
  };
  struct Due {
    Timer timer;
    std::uint64_t subject = 0;  // incarnation, job, node or device
    std::uint64_t epoch = 0;    // epoch of the job; a timer of an older epoch is void
  };
  void on_due(const Due& due);

  // The index of an admitted job in the workload.
  std::optional<std::size_t> job_of(const JobId& id) const {
    const auto at = run_of_job_.find(id);
    return at == run_of_job_.end() ? std::nullopt : std::optional<std::size_t>(at->second);
  }
  std::uint32_t finished() const { return finished_; }
  std::uint32_t refused() const { return refused_; }
  const std::string& first_refusal() const { return first_refusal_; }
  std::uint32_t failures() const { return failures_; }
  std::uint32_t stragglers() const { return stragglers_; }
  // True if no more jobs or claims will be submitted and no worker exists.
  bool is_idle() const;

 private:
  void follow(std::size_t index);
  void on_job_ended(std::size_t index);
  void ask_whether_paused(std::size_t index);
  void on_job_without_devices(std::size_t index, const Msg<wire::JobDetails>& details);
  double price_of(const DeviceId& device) const;

  struct Worker {
    std::uint32_t run = 0;
    DeviceId device;
    Generation generation{};
    bool has_state = false;
  };
  struct Run {
    JobId id;  // empty before the job is admitted
    caf::actor actor;
    std::set<Incarnation> workers;
    double first_given_s = -1;
    bool has_run = false;
    bool is_over = false;
    // State of the placement.
    std::vector<protocol::Member> members;
    Generation generation;
    Version target = 0;
    std::optional<Version> pause_at;
    std::uint64_t epoch = 0;  // counts every begin and end of stepping, and every round
    bool steps = false;
    bool stops = false;              // at the next boundary
    double since_s = 0, step_s = 0;  // steps from `version` since since_s, one every step_s
    Version version = 0;             // while it stands still: its version
    Version told = 0;                // newest version that the head was told
    // The next checkpoint of the job's own series.
    std::optional<protocol::WriteCheckpoint> checkpoint;
    std::vector<double> local_s;  // seconds of a local step of each member
    Version reported = 0;         // speeds are reported up to this version
    int reports = 0;              // number of reports since the speeds changed
  };
  // A serving load.
  struct Serving {
    std::string type;
    std::uint32_t wanted = 0;
    std::uint32_t has = 0;  // number of devices that it has or has requested
    bool waits = false;     // it was refused while a node was away
  };

  // Time.
  double now_s() const;
  void after(double seconds, Due due);
  // Clients and nodes (world_cluster.cc).
  void add_nodes();
  void plan_submission();
  void submit();
  void plan_claim();
  void claim();
  void reserve(const store::TraceClaim& claim);
  void ask_for(const std::string& name);
  void on_answer(const std::shared_ptr<const Frame>& frame);
  bool on_claim_answer(Serving& serving, int change, bool refused);
  void node_hello(std::size_t node);
  void plan_failure();
  void fail_node(std::size_t node);
  void lose_node(std::size_t node);
  void repair_node(std::size_t node);
  void lose_workers(const std::string& node);
  // Speeds (world_speed.cc).
  void plan_straggler();
  void set_slow(std::size_t device, bool slow);
  Spread spread_of(const Run& run) const;
  void set_pace(Run& run);
  void change_pace(Run& run);
  void plan_report(Run& run);
  void report(Run& run);
  void plan_checkpoint(Run& run);
  void write_checkpoint(Run& run);
  // Processes.
  void start_worker(const Outbound& outbound);
  void say_hello(Incarnation incarnation);
  void end_worker(Incarnation incarnation, int exit_code, bool tell);
  // Rounds.
  void on_head_message(Incarnation to, const protocol::HeadMessage& message);
  void on(Worker& worker, Incarnation to, const protocol::Prepare& message);
  void on(Worker& worker, Incarnation to, const protocol::Install& message);
  void on(Worker& worker, Incarnation to, const protocol::Go& message);
  void on(Worker& worker, Incarnation to, const protocol::Drain& message);
  void on(Worker& worker, Incarnation to, const protocol::WriteCheckpoint& message);
  void on(Worker&, Incarnation to, const protocol::Release&) { end_worker(to, 0, true); }
  void on(Worker&, Incarnation, const auto&) {}  // messages that this world ignores
  void stand_still(Run& run, Version version);
  void plan_steps(Run& run);
  void stop_after(Run& run, double steps);
  static double steps_done(const Run& run, double now_s);
  Version version_at(const Run& run, double now_s) const;
  void lose_work(Run& run, Version target);
  void become_ready(Run& run);
  void reach_boundary(Run& run);
  void finish(Run& run);
  void commit(Run& run, Incarnation by, Version version);
  void tell(Run& run, const protocol::WorkerMessage& message);
  void forget(Run& run);
  Run& run_of(const Worker& worker) { return runs_[worker.run]; }
  std::size_t index_of(const Run& run) const {
    return static_cast<std::size_t>(&run - runs_.data());
  }

  caf::stateful_actor<WorldState>* self_ = nullptr;
  const Workload* workload_ = nullptr;
  WorldOptions options_;
  Recorder* recorder_ = nullptr;
  caf::actor head_;
  std::vector<Run> runs_;  // in the order of the jobs of the workload
  std::unordered_map<JobId, std::uint32_t> run_of_job_;
  std::unordered_map<Incarnation, Worker> workers_;
  struct Node {
    std::string name;
    DeviceSet devices;
    std::string rack;
    bool spot = false;
  };
  std::vector<Node> nodes_;
  std::vector<std::size_t> failing_nodes_;    // indices of nodes that may be lost
  std::map<std::string, std::string> racks_;  // by node
  std::set<std::string> lost_nodes_;
  std::set<std::string> announced_;  // nodes that will be lost
  std::set<std::string> spot_nodes_;
  std::vector<DeviceId> devices_;  // of all nodes
  std::set<DeviceId> slow_;
  std::optional<Mishaps> failure_plan_, straggler_plan_;
  std::map<std::string, Serving> servings_;  // by name
  // Requests of claims that are not answered yet: the name of the claim, and the change of its
  // number of devices.
  std::map<std::uint64_t, std::pair<std::string, int>> asked_;
  std::size_t next_submission_ = 0, next_claim_ = 0;
  std::uint32_t finished_ = 0, refused_ = 0, failures_ = 0, stragglers_ = 0;
  std::uint64_t next_request_ = 0;  // number of the next request of a claim
  std::string first_refusal_;
  // The last message of the head to a worker: the workers of a job often get the same one.
  struct Decoded {
    std::shared_ptr<const Frame> frame;
    protocol::HeadMessage message;
  };
  Decoded decoded_;
};

caf::behavior world_actor(caf::stateful_actor<WorldState>* self, const Workload* workload,
                          WorldOptions options, Recorder* recorder);

}  // namespace es::actors::simulator

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::simulator::BeginWorld)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::simulator::WorldState::Due)
