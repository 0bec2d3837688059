#pragma once
// PastJobs: jobs that are over, until they are removed: by a client, or because the head keeps only
// some of them (retention.h).
//
// Durable: the removal of a job, before the request is answered. First the log goes, then
// everything in the journal at once. After a crash in between the job is there as before, without
// its log, and can be removed again. Checkpoints are never touched.
// Ownership: it uses the table, the actors and the records of jobs, and owns what is known of their
// ends. Used by one actor.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/core/job_table.h"
#include "actors/head/cluster_scheduler/shell/cluster_scheduler_options.h"
#include "actors/head/cluster_scheduler/shell/durable_writes.h"
#include "actors/head/cluster_scheduler/shell/job_actors.h"
#include "actors/head/cluster_scheduler/shell/listed_job.h"
#include "actors/head/cluster_scheduler/shell/replies.h"
#include "actors/head/head_store.h"

namespace es::actors {

class PastJobs {
 public:
  struct Uses {
    HeadStore& store;
    DurableWrites& writes;
    JobTable& jobs;
    JobActors& actors;
    const Replies& replies;
    const ClusterSchedulerOptions& options;
  };
  struct Ports {
    std::function<void()> tidy_soon;    // calls tidy()
    std::function<void()> watch_later;  // calls watch_ages()
  };
  PastJobs(Uses uses, Ports ports) : with_(uses), ports_(std::move(ports)) {}

  // A job of an earlier head that is over, but clients may ask about it.
  void restore(JobRecord record);
  // A job of an earlier head that cannot continue, for this reason: it ends as failed.
  void restore_failed(JobRecord record, const std::string& reason);
  // A job of this head is over, as the table knows. Logs its end.
  void log_end_of(const JobId& job) const;
  // The same: clients can ask about it from now on, or nothing of it is kept.
  void keep_or_forget(const JobId& job);

  // What a list shows of the job; null: it has to be asked.
  std::shared_ptr<const ListedJob> end_of(const JobId& job) const;
  // The job was asked. Kept if it is over and its end is on the disk.
  void keep_end(const JobId& job, const std::shared_ptr<const ListedJob>& end);

  // RemoveJob, a request of a client. It is answered, perhaps later. Errors: there is no such job;
  // refused: it is not over; failure: it does not answer, or cannot be removed.
  void remove(const Inbound& request);
  // Removes the jobs that are kept no more. What cannot be removed now stays until the next call.
  void tidy();
  // Time passes although no job ends: called once, has itself called again from then on.
  void watch_ages();

 private:
  void ask_for_end(const JobId& job);
  // Removes the job, or says why it cannot be removed. `now` is what it said of itself.
  void remove_if_over(const Inbound& request, const JobId& job, const ListedJob& now);
  void remove_past(const Inbound& request, const JobId& job);
  std::vector<Inbound> take_waiting(const JobId& job);
  Status remove_now(const JobId& job);
  void forget(const JobId& job);
  void tidy_soon();

  const Uses with_;
  const Ports ports_;
  std::map<JobId, std::shared_ptr<const ListedJob>> ends_;
  // Requests to remove a job that is over, whose message about it has not come yet.
  std::map<JobId, std::vector<Inbound>> removals_;
  bool tidies_ = false;  // a call of tidy() is to come
};

}  // namespace es::actors
