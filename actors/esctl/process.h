#pragma once
// PrivateDaemon: an easyscaled that belongs to one `esctl run`: a head and node in one, listening
// on a Unix socket in a private directory that vanishes with it.
//
// The daemon is told our process id and asked by the kernel to end when we end, so it does not
// outlive us however we die. It runs in a process group of its own: Ctrl-C on the terminal reaches
// esctl only, which then stops the daemon in an orderly way.
//
// Used by one thread. Create it before the process has threads or a ZeroMQ context (it forks).
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/esctl/stop_signals.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// The program `easyscaled`: what the environment variable EASYSCALED names, or else beside esctl,
// or else where the build tree has it. Error (not found): lists where it was looked for.
Result<std::filesystem::path> find_easyscaled();

struct DaemonOptions {
  std::filesystem::path executable;
  DeviceSet devices;  // that it offers
  // Where its state and log stay after the end; empty: they go with the private directory. Must be
  // absent or empty.
  std::filesystem::path keep;
  // Where a job that fails because of its data leaves its last state; empty: nowhere.
  std::filesystem::path rescue;
};

class PrivateDaemon {
 public:
  // Starts it and waits until it serves. Errors: refused (`keep` is not empty); the daemon's own
  // complaint and the kind of its exit code, when it ends early; failure when it is not ready in
  // time, or when a stop signal came. REQUIRES: `signals` outlives the daemon.
  static Result<std::unique_ptr<PrivateDaemon>> start(const DaemonOptions& options,
                                                      StopSignals& signals);
  // Kills what is still there, and removes the private directory.
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // The last lines that it wrote to its log.
  std::string log_tail() const;

  // Ends it: waits for an end that was asked for by Shutdown, then SIGTERM, then SIGKILL. Each wait
  // is bounded, and cut short as soon as signals.count() exceeds `signals_max`.
  void stop(int signals_max);

 private:
  explicit PrivateDaemon(StopSignals& signals) : signals_(signals) {}
  Status prepare(const DaemonOptions& options);
  Status launch(const DaemonOptions& options);
  Status wait_ready();
  Error ended_early();
  bool reap();
  bool wait_for_end(std::chrono::milliseconds timeout, int signals_max);
  void kill_group();

  StopSignals& signals_;
  std::filesystem::path directory_;  // private; empty: not made
  std::filesystem::path state_;
  std::filesystem::path log_;
  std::string endpoint_;
  pid_t pid_ = 0;  // 0: none runs
  int exit_status_ = 0;
  int ready_fd_ = -1;  // read end of its standard output
};

}  // namespace es::actors::esctl
