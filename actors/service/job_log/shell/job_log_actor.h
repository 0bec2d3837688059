#pragma once
// JobLogActor writes the curves of jobs to the trackers that their job files name ([log]):
// TensorBoard's event files and MLflow. It is one more client of the head.
//
// Accepts   LogJob from the daemon for each job with [log]; Inbound from the switchboard, where it
// is
//           the peer kJobLogPeer; a tick of its own, once a second.
// Sends     Outbound to the head, through the switchboard: DescribeJob and ReadLedger.
// State     For each such job what its trackers have. Nothing is saved: a tracker is asked what it
//           has, or written anew.
// Fails     A tracker that does not answer is a warning in the log, once until it works again. What
//           it lacks is offered again, because the ledger of the job has it. A job never notices.
// Order     One request to the head at a time for each job.
// Limits    None of its own. While a tracker does not answer, the others wait up to 30 s.
// Threads   Detached, because files and requests to a tracker block.
#include <caf/actor.hpp>
#include <caf/stateful_actor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/wire/job_view.h"
#include "actors/views/trackers/job_tracking.h"
#include "proto/base/job_spec.h"
#include "proto/messages.h"
#include "store/path_roots.h"

namespace es::actors {

// A job whose curves are to be written. Repetitions change nothing.
struct LogJob {
  JobId job;
  LogSpec log;
};

class JobLogState {
 public:
  // Directories of event files must lie in `roots`.
  void init(caf::stateful_actor<JobLogState>* self, caf::actor switchboard, store::PathRoots roots);
  void add(const LogJob& job);
  void on_inbound(const Inbound& inbound);
  void tick();

 private:
  using Clock = std::chrono::steady_clock;
  struct Logged {
    LogSpec log;
    std::optional<JobTracking> tracking;     // set when the records could be begun
    Clock::time_point due{};                 // time of the next look at the job
    std::optional<Clock::time_point> asked;  // a request to the head is open since then
    std::uint64_t request = 0;               // its number
    JobView view;
    std::vector<store::LedgerLine> lines;  // that were read and are not written yet
    bool failing = false;
  };

  template <class Schema, class Fill>
  void ask(const JobId& job, Logged& logged, Fill&& fill);
  void take_details(const JobId& job, Logged& logged, const Inbound& inbound);
  void take_part(const JobId& job, Logged& logged, const Inbound& inbound);
  Status begin(Logged& logged, const std::string& spec_toml);
  void write(const JobId& job, Logged& logged);
  void wait(Logged& logged, Clock::duration time);
  void report(const JobId& job, Logged& logged, const Status& status);

  caf::stateful_actor<JobLogState>* self_ = nullptr;
  caf::actor switchboard_;
  store::PathRoots roots_;
  std::uint64_t last_request_ = 0;
  std::map<JobId, Logged> jobs_;
};

caf::behavior job_log_actor(caf::stateful_actor<JobLogState>* self, caf::actor switchboard,
                            store::PathRoots roots);

}  // namespace es::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(es::actors::LogJob)
