#pragma once
// PrivateRun: a job with a daemon of its own that lives as long as the job. The first stop signal
// cancels the job, which first writes the requested checkpoint of its last completed step and then
// ends cleanly. The second signal kills what is left.
//
// Not thread-safe. One object runs one job.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/esctl/client/process.h"
#include "actors/esctl/client/requests.h"
#include "actors/esctl/client/stop_signals.h"
#include "actors/views/console.h"

namespace es::actors::esctl {

// What a command does while its job trains. Each function may be empty.
struct RunObserver {
  // The daemon has accepted the job, and answers at this address as long as the job lives.
  std::function<void(const HeadAddress& address)> accepted;
  std::function<void(const JobView& view)> seen;   // every state on the way
  std::function<void(const JobView& view)> ended;  // the last state; the daemon still answers
};

struct PrivateRunOptions {
  // A new directory for the checkpoint at the end of the job, or at the step where it is stopped.
  // If it is empty, no checkpoint is written.
  std::string checkpoint;
  std::string keep;    // see DaemonOptions::keep
  bool rescue = true;  // a job that fails for its data leaves its state in this directory
  bool quiet = false;
  RunObserver observer = {};
  // Called after the job has ended by itself, while the daemon still answers. It may be empty.
  std::function<Status(Client& client, const JobId& job)> at_end = {};
};

class PrivateRun {
 public:
  // Both parameters must outlive the run.
  PrivateRun(const PrivateRunOptions& options, Console& console)
      : options_(options), console_(console) {}

  Status start(const std::filesystem::path& easyscaled);
  // Returns the final state of the job, or an error. The daemon has ended afterwards, so a state
  // that it had saved for itself is not in it.
  Result<JobView> train(const JobSpec& spec, const StartPoint& start);
  // The signal that ended the run early, or 0.
  int stop_signal() const { return signals_.first(); }
  // After train(): the requested checkpoint, or the error why there is none. No value if no
  // checkpoint was requested or the job was not accepted.
  const std::optional<Result<CheckpointView>>& checkpoint() const { return checkpoint_; }

 private:
  Result<JobView> submit_and_follow(const JobSpec& spec, const StartPoint& start);
  HeadAddress address() const;
  std::filesystem::path elsewhere() const;
  void ask_for_checkpoint();
  void collect_checkpoint();
  Result<JobView> stop_early();
  void shut_down();
  void remove_unfinished() const;

  const PrivateRunOptions& options_;
  Console& console_;
  StopSignals signals_;
  int signals_max_ = 0;  // a greater number of signals ends the current wait
  std::unique_ptr<PrivateDaemon> daemon_;
  std::unique_ptr<Client> client_;
  JobId job_;                           // set when the job was accepted
  std::optional<std::uint64_t> asked_;  // the request for the checkpoint
  std::optional<Result<CheckpointView>> checkpoint_;
};

}  // namespace es::actors::esctl
