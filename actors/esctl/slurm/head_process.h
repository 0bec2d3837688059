#pragma once
// HeadProcess: `easyscaled --head` of a cluster on Slurm, as a child of `esctl slurm up --here`.
// Its log goes to the standard error of this process. It gets SIGTERM when this process ends.
//
// Not thread-safe. One StopSignals must exist meanwhile, so that SIGCHLD ends a poll().
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/esctl/client/stop_signals.h"
#include "proto/base/file_descriptor.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

class HeadProcess {
 public:
  // Starts the program and waits for its line "ready ENDPOINT". Errors: failure, or the kind of its
  // exit status (it ended before it was ready, or a stop signal has arrived).
  static Result<std::unique_ptr<HeadProcess>> start(const std::vector<std::string>& words,
                                                    StopSignals& signals);
  // Kills it if it still runs.
  ~HeadProcess();
  HeadProcess(const HeadProcess&) = delete;
  HeadProcess& operator=(const HeadProcess&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // How it has ended, as "signal Killed" or "exit status 1"; no value while it runs.
  std::optional<std::string> end();
  // Sends SIGTERM and waits for its end; at a further stop signal it is killed.
  void stop();

 private:
  HeadProcess(pid_t pid, int out, StopSignals& signals) : pid_(pid), out_(out), signals_(signals) {}
  Status wait_ready();
  bool reap(bool wait);

  pid_t pid_;
  FileDescriptor out_;  // the read end of its standard output
  StopSignals& signals_;
  std::string endpoint_;
  std::optional<int> status_;  // of waitpid()
};

}  // namespace es::actors::esctl
