#pragma once
// JobIntake: how jobs come to this head: submitted by a client, or from the journal.
//
// Durable: the record of a job, before submit() returns its id.
// Ownership: it uses other parts of the actor, and owns only whether it accepts jobs. Used by one
// actor. Admission reads the data set once and blocks meanwhile.
#include <string>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/head/cluster_scheduler/core/job_table.h"
#include "actors/head/cluster_scheduler/core/node_book.h"
#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_options.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/durable_writes.h"
#include "actors/head/cluster_scheduler/shell/inventory_message.h"
#include "actors/head/cluster_scheduler/shell/job_actors.h"
#include "actors/head/cluster_scheduler/shell/past_jobs.h"
#include "actors/head/head_store.h"

namespace es::actors {

class JobIntake {
 public:
  struct Uses {
    HeadStore& store;
    DurableWrites& writes;
    Decisions& decisions;
    JobTable& jobs;
    JobActors& actors;
    PastJobs& past;
    NodeBook& nodes;
    InventoryMessage& inventory;
    const ClusterSchedulerOptions& options;
    ClusterClock clock;
  };
  explicit JobIntake(Uses uses) : with_(std::move(uses)) {}

  // SubmitJob, a request of a client: returns the job that runs now, or the one that this request
  // has made before. Errors: a malformed request; what client_spec(), admission and check_fits()
  // refuse; refused: the intake is closed; a failed write.
  Result<JobId> submit(const Inbound& request);
  // No new jobs; the existing ones stay.
  void close() { closed_ = true; }

  // All jobs of the journal continue, fail or are over. The nodes of those that continue are
  // awaited. Called once, before any node says hello. Error: the journal cannot be read.
  Status restore();

 private:
  struct Request {
    std::string spec_toml, checkpoint, id, submitter;
  };
  static Result<Request> request_of(const Inbound& inbound);
  Result<AdmittedJob> admit(const Request& request, const PeerId& client) const;
  JobRecord record_of(const Request& request, const AdmittedJob& admitted,
                      std::uint64_t sequence) const;
  void restore_live(AdmittedJob admitted, JobRecord record);
  void start(AdmittedJob admitted, JobRecord record, bool restored);
  cluster::JobAdmitted event_of(const AdmittedJob& admitted, const JobRecord& record,
                                bool restored) const;
  IntraJobOptions options_of(AdmittedJob admitted, JobRecord record, bool restored) const;

  const Uses with_;
  bool closed_ = false;
};

}  // namespace es::actors
