#pragma once
// PrivateRun: a job with a daemon of its own, which lives as long as the job. The first stop signal
// cancels the job, which first writes the checkpoint that is wanted, of its last completed step,
// and ends in good order; the second one kills what is left.
//
// Used by one thread. One job each.
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "actors/esctl/console.h"
#include "actors/esctl/process.h"
#include "actors/esctl/requests.h"
#include "actors/esctl/stop_signals.h"

namespace es::actors::esctl {

struct PrivateRunOptions {
  // Where the job leaves one at its end, or where it is stopped: a new directory; empty: none.
  std::string checkpoint;
  std::string keep;    // as DaemonOptions::keep
  bool rescue = true;  // a job that fails because of its data leaves its state in this directory
  bool quiet = false;
  // Called when the job has ended by itself, while the daemon still answers; may be empty.
  std::function<Status(Client& client, const JobId& job)> at_end = {};
};

class PrivateRun {
 public:
  // Both outlive the run.
  PrivateRun(const PrivateRunOptions& options, Console& console)
      : options_(options), console_(console) {}

  Status start(const std::filesystem::path& easyscaled);
  // The job's end, or why there is none. Afterwards the daemon is gone.
  Result<JobView> train(const JobSpec& spec, const StartPoint& start);
  // The signal that ended the run early, or 0.
  int stop_signal() const { return signals_.first(); }
  // After train(): the checkpoint that was wanted, or why there is none. None: none was wanted, or
  // the job was not accepted.
  const std::optional<Result<CheckpointView>>& checkpoint() const { return checkpoint_; }

 private:
  Result<JobView> submit_and_follow(const JobSpec& spec, const StartPoint& start);
  std::filesystem::path elsewhere() const;
  void ask_for_checkpoint();
  void collect_checkpoint();
  Result<JobView> stop_early();
  void shut_down();
  void remove_unfinished() const;

  const PrivateRunOptions& options_;
  Console& console_;
  StopSignals signals_;
  int signals_max_ = 0;  // more of them end what is waited for
  std::unique_ptr<PrivateDaemon> daemon_;
  std::unique_ptr<Client> client_;
  JobId job_;                           // once it was accepted
  std::optional<std::uint64_t> asked_;  // the request for the checkpoint
  std::optional<Result<CheckpointView>> checkpoint_;
};

}  // namespace es::actors::esctl
