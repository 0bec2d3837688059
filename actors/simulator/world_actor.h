#pragma once
// World: everything outside of the head, as one actor in the place of the gateway: nodes, worker
// processes, and the client that submits the jobs of a workload. The head cannot tell the
// difference; what it is told is what real processes would tell it, but for the following.
//
//   start      a process says Hello start_s after its job's first device was given, or at once when
//              the job has trained before
//   training   no worker computes anything: from Go on a job makes a step every f seconds, f being
//              the largest (ranks x seconds of a local step) of its members, and sync_s for each
//              member but one. The world answers only where something falls due: the last version,
//              a checkpoint, the boundary at which members were asked to stop (so the ledger is
//              sparse: Config.sparse_ledger)
//   speeds     where they are not what the head was told (is_measured), members report what their
//              steps take: after every change a few times, for as long as the head needs to see it,
//              then ever more seldom
//   changes    a round takes rescale_s from Install to Ready, but for a job's first one
//   processes  end at once when they are told to
//   failures   a node is gone with its workers, and says hello again repair_s later. What a job
//              does then is the head's business; lost are the step that was being computed, and
//              what no worker holds and no checkpoint has
//
// Accepts   Outbound of the head's actors; BeginWorld once. Timers of its own.
// Sends     Inbound, PeerDown to the head; Inbound to intra-job schedulers, in answer.
// State     what runs where, and how far each job is; the Recorder is told every change.
// Order     of arrival; one thread. Everything random comes from the seed.
// Fails     never by itself. A job that the head refuses or gives up is counted as unfinished.
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

#include "actors/gateway/gateway_messages.h"
#include "actors/protocol/messages.h"
#include "actors/simulator/mishaps.h"
#include "actors/simulator/recorder.h"
#include "actors/simulator/workload.h"
#include "proto/messages.h"

namespace es::actors::simulator {

inline constexpr const char* kSimulatedClient = "client/simulation";

struct WorldOptions {
  double start_s = 20;
  double rescale_s = 1;
  double sync_s = 0;  // a global step takes so much longer for each device but one
  std::uint32_t devices_per_node = 8;
  std::uint64_t seed = 0;       // of failures and stragglers, each its own
  double failure_hours = 0;     // mean time between two losses of one node; 0: none
  double repair_s = 3600;       // a lost node is back after this
  double straggler_hours = 0;   // mean time between two slow times of one device; 0: none
  double straggler_s = 600;     // how long one lasts
  double straggler_factor = 3;  // a local step takes so many times as long there
  std::vector<store::TraceClaim> claims;

  bool is_measured() const { return sync_s > 0 || straggler_hours > 0; }
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
    kRepair,
    kSlow,
    kUsual
  };
  struct Due {
    Timer timer;
    std::uint64_t subject = 0;  // incarnation, job, node or device
    std::uint64_t epoch = 0;    // of the job; an older one is void
  };
  void on_due(const Due& due);

  std::uint32_t finished() const { return finished_; }
  std::uint32_t refused() const { return refused_; }
  const std::string& first_refusal() const { return first_refusal_; }
  std::uint32_t failures() const { return failures_; }
  std::uint32_t stragglers() const { return stragglers_; }
  // No job will be submitted or claimed for any more, and nobody holds anything.
  bool is_idle() const;

 private:
  struct Worker {
    std::uint32_t run = 0;
    DeviceId device;
    Generation generation{};
    bool has_state = false;
  };
  struct Run {
    JobId id;  // empty: not admitted yet
    caf::actor actor;
    std::set<Incarnation> workers;
    double first_given_s = -1;
    bool has_run = false;
    bool is_over = false;
    // Of the placement.
    std::vector<protocol::Member> members;
    Generation generation;
    Version target = 0;
    std::uint64_t epoch = 0;  // counts every begin and end of stepping, and every round
    bool steps = false;
    bool stops = false;              // at the next boundary
    double since_s = 0, step_s = 0;  // it has stepped from `version` since then, one per step_s
    Version version = 0;             // when it stands still: where
    Version told = 0;                // the newest that the head was told of
    // The checkpoint of its own series that comes next.
    std::optional<protocol::WriteCheckpoint> checkpoint;
    std::vector<double> local_s;  // of the members' local steps
    Version reported = 0;         // speeds are, up to this version
    int reports = 0;              // since they last changed
  };
  // A serving load.
  struct Serving {
    std::string type;
    std::uint32_t wanted = 0;
    std::uint32_t has = 0;  // devices, or has asked for
    bool waits = false;     // refused while a node was away
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
  void ask_for(const std::string& name);
  void on_answer(const std::shared_ptr<const Frame>& frame);
  bool on_claim_answer(Serving& serving, int change, bool refused);
  void node_hello(std::size_t node);
  void plan_failure();
  void fail_node(std::size_t node);
  void repair_node(std::size_t node);
  void lose_workers(const std::string& node);
  // How fast (world_speed.cc).
  void plan_straggler();
  void set_slow(std::size_t device, bool slow);
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
  void on(Worker&, Incarnation, const auto&) {}  // what this world has no use for
  void stand_still(Run& run, Version version);
  void plan_steps(Run& run);
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
  std::vector<Run> runs_;  // as the jobs of the workload
  std::unordered_map<JobId, std::uint32_t> run_of_job_;
  std::unordered_map<Incarnation, Worker> workers_;
  struct Node {
    std::string name;
    DeviceSet devices;
  };
  std::vector<Node> nodes_;
  std::set<std::string> lost_nodes_;
  std::vector<DeviceId> devices_;  // of all nodes
  std::set<DeviceId> slow_;
  std::optional<Mishaps> failure_plan_, straggler_plan_;
  std::map<std::string, Serving> servings_;  // by name
  // Requests of these that are not answered yet: whose, and how many devices more.
  std::map<std::uint64_t, std::pair<std::string, int>> asked_;
  std::size_t next_submission_ = 0, next_claim_ = 0;
  std::uint32_t finished_ = 0, refused_ = 0, failures_ = 0, stragglers_ = 0;
  std::uint64_t next_request_ = 0;  // of claims
  std::string first_refusal_;
};

caf::behavior world_actor(caf::stateful_actor<WorldState>* self, const Workload* workload,
                          WorldOptions options, Recorder* recorder);

}  // namespace es::actors::simulator

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::simulator::BeginWorld)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::simulator::WorldState::Due)
