#pragma once
// IntraJob is the intra-job scheduler of one job without its actor. It reads what arrives, gives it
// to the core (core/job_core.h) or the planner of the job, and performs what these decide. Its
// parts own the rest of the state:
//
//   JobClock          the core's time and the real time
//   JobLog            the lines of the job's log
//   JobArchive        what a restarted head must know: record, ledger, evaluations, end
//   OrderedEffects    the effects that wait while the state directory cannot be written
//   WorkerReports     what workers have measured, for users
//   JobViews          the description of the job for users
//   JobFollowers      clients that watch the job
//   JobRequests       clients that wait for an answer
//   JobTraces         the running trace
//   JobNodes          messages to and from node agents
//   JobPlans          performs what the planner decides
//   EffectPerformer   performs what the core decides
//
// intra_job_actor.h says what is accepted and sent. One owner, which passes on each message, and
// calls tick() when a timer has fired.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/head_store.h"
#include "actors/head/intra_job/core/awaited_workers.h"
#include "actors/head/intra_job/core/job_core.h"
#include "actors/head/intra_job/core/job_planner.h"
#include "actors/head/intra_job/core/lost_steps.h"
#include "actors/head/intra_job/shell/effect_performer.h"
#include "actors/head/intra_job/shell/job_timer.h"
#include "actors/head/intra_job/shell/present_nodes.h"

namespace es::actors {

struct IntraJobOptions {
  JobId job;
  intra_job::Config config;  // with the specification of the job
  JobRecord record;          // as admitted, or as the journal has it; with the text of the job file
  bool restored = false;     // the head was restarted: continue from the record
  // assumed pause of a change, until one was measured
  Instant pause_assumed = std::chrono::milliseconds(500);
  Instant suspend_assumed = std::chrono::seconds(3);
  std::filesystem::path log_file;          // empty: lines are kept in memory only
  std::function<std::uint64_t()> unix_ms;  // the date, for people
};

class IntraJob {
 public:
  // What is around the job. Mail and timer outlive it; no pointer is null.
  struct Surroundings {
    std::shared_ptr<HeadStore> store;
    std::shared_ptr<PresentNodes> present_nodes;
    JobMail& mail;
    JobTimer& timer;
    std::function<Instant()> clock;
  };
  // Error: the history of a restored job cannot be read (job_archive.h).
  static Result<std::unique_ptr<IntraJob>> create(IntraJobOptions options,
                                                  Surroundings surroundings);
  // Call once, before anything else.
  void start();

  // From the gateway.
  void on_inbound(const Inbound& inbound);
  void on_peer_down(const PeerDown& down);
  // From the cluster scheduler.
  void on_allocation(wire::Allocation::Reader r);
  void on_refused(wire::DemandRefused::Reader r);
  void on_inventory(const Msg<wire::Inventory>& inventory);
  void on_store_recovered();
  void cancel_unasked();  // the head is shutting down
  Msg<wire::JobDetails> details() const { return views_.details(views_.shown_state()); }
  // From the companion.
  void on_plans(wire::PlanAnswer::Reader r);
  void on_plan_list(const Msg<wire::PlanList>& list);
  // A timer has fired.
  void tick();

 private:
  IntraJob(IntraJobOptions options, Surroundings surroundings,
           std::optional<StoredHistory> history);

  void on_client(const Inbound& inbound);
  void on_command(const Inbound& inbound);
  void on_list_plans(const Inbound& inbound);
  void on_worker_message(const Inbound& inbound);
  void on_worker_stats(wire::WorkerStats::Reader r, Incarnation sender);
  void on_worker_exited(wire::WorkerExited::Reader r);
  void on_node_hello(wire::NodeHello::Reader r);
  void reaped(Incarnation worker, const std::string& why, const std::string& for_trace);
  void lose(const std::set<Incarnation>& workers, const std::string& why);
  // Gives the event to the core and performs the effects.
  void happens(const intra_job::Event& event) { perform(core_.on(event, clock_.now())); }
  void perform(intra_job::Effects effects);
  void effects_end();
  void arm_timer();
  void stalled(const Error& reason);
  Status check_accepting();

  Surroundings around_;
  JobClock clock_;
  const IntraJobOptions options_;
  JobLog log_;
  JobArchive archive_;
  intra_job::JobPlanner planner_;
  intra_job::JobCore core_;
  intra_job::AwaitedWorkers awaited_;
  intra_job::LostSteps lost_steps_;
  OrderedEffects effects_;
  WorkerReports reports_;
  EvaluationViews evaluations_;
  JobViews views_;
  RequestNumbers numbers_;
  ClientAnswers answers_;
  JobFollowers followers_;
  JobRequests requests_;
  JobTraces traces_;
  JobNodes nodes_;
  JobPlans plans_;
  EffectPerformer performer_;
};

}  // namespace es::actors
