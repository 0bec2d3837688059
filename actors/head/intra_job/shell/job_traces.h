#pragma once
// JobTraces runs the traces of one job, one at a time (core/job_trace.h): it talks to the workers
// and passes their spans on to the client that has asked.
//
// One owner, which calls tick() soon after next_tick().
#include <cstdint>
#include <optional>
#include <string>

#include "actors/head/intra_job/core/job_core.h"
#include "actors/head/intra_job/core/job_trace.h"
#include "actors/head/intra_job/shell/client_answers.h"
#include "actors/head/intra_job/shell/job_clock.h"
#include "actors/head/intra_job/shell/job_log.h"

namespace es::actors {

class JobTraces {
 public:
  struct Needs {
    const intra_job::Config& config;
    const intra_job::JobCore& core;
    const JobClock& clock;
    RequestNumbers& numbers;
    JobLog& log;
    JobMail& mail;
  };
  // What `needs` refers to outlives this object.
  JobTraces(JobId job, const Needs& needs)
      : job_(job), needs_(needs), answers_(std::move(job), needs.mail) {}

  // TraceJob of a client: begins a trace, or stops its own.
  void on_request(const Inbound& inbound);
  // TraceAnswer and TracePart of a worker.
  void on_answer(const Inbound& inbound);
  void on_part(const Inbound& inbound);
  // A client that has gone needs no trace.
  void client_gone(const PeerId& client);

  // What the job does meanwhile. A message of a worker has arrived; ...
  void message_arrived();
  // ... one is sent; ...
  void sends(const intra_job::SendWorker& effect);
  // ... a line is in the ledger.
  void ledger_line(Version version);
  void state_changed(JobState state);
  void job_ended(JobState state);  // and so have all of its workers
  // The process of a worker has ended. `why` is empty if the job has released it.
  void worker_gone(Incarnation worker, const std::string& why);

  std::optional<Instant> next_tick() const;  // in real time
  void tick();

 private:
  Status check(std::uint32_t steps, bool wait) const;
  void ask_members();
  void perform(const intra_job::TraceSends& sends);
  void finish();
  void stop_worker(const PeerId& worker, std::uint64_t trace);
  bool runs(std::uint64_t number) const { return trace_ && trace_->number() == number; }

  JobId job_;
  Needs needs_;
  ClientAnswers answers_;
  std::optional<intra_job::JobTrace> trace_;  // the one that runs
  ClientRequest client_;                      // who has asked for the newest one
  Instant message_begin_{};  // when the message that is handled now arrived, while a trace runs
};

}  // namespace es::actors
