#pragma once
// PrivateDaemon: an easyscaled that belongs to one `esctl run`. It is head and node in one process
// and listens on a Unix socket in a private directory, which is removed with it.
//
// The daemon receives the process id of esctl, and the kernel signals it when esctl ends, so it
// never outlives esctl, however esctl ends. It has a process group of its own: Ctrl-C in the
// terminal reaches only esctl, which then stops the daemon cleanly.
//
// Not thread-safe. It calls fork(), so create it before the process has threads or a ZeroMQ
// context.
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/esctl/client/stop_signals.h"
#include "proto/base/device.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// Finds the program `easyscaled`: the environment variable EASYSCALED names it; otherwise it is
// beside esctl, or at its place in the build tree. Error (not found): lists the places that were
// searched.
Result<std::filesystem::path> find_easyscaled();

struct DaemonOptions {
  std::filesystem::path executable;
  DeviceSet devices;  // the devices that it offers
  // The directory for its state and log, which stay after the end. It must be missing or empty. If
  // no directory is given, they are removed with the private directory.
  std::filesystem::path keep;
  // The directory in which a job that fails for its data leaves its last state. If it is empty, the
  // state is not kept.
  std::filesystem::path rescue;
};

class PrivateDaemon {
 public:
  // Starts the daemon and waits until it is ready. Errors: refused (`keep` is not empty); the
  // message of the daemon and the kind of its exit code, if it ends early; failure, if it is not
  // ready in time or a stop signal arrives. REQUIRES: `signals` outlives the daemon.
  static Result<std::unique_ptr<PrivateDaemon>> start(const DaemonOptions& options,
                                                      StopSignals& signals);
  // Kills what is left, and removes the private directory.
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  // Whether the file is removed with the private directory.
  bool removes(const std::filesystem::path& file) const;
  // The last errors and warnings of its log.
  std::string log_tail() const;

  // Ends the daemon: waits for the end that Shutdown has requested, then sends SIGTERM, then
  // SIGKILL. Each wait is bounded, and ends as soon as signals.count() exceeds `signals_max`.
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
  std::filesystem::path directory_;  // the private directory; empty before it is created
  std::filesystem::path state_;
  std::filesystem::path log_;
  std::string endpoint_;
  pid_t pid_ = 0;  // 0 if no daemon runs
  int exit_status_ = 0;
  int ready_fd_ = -1;  // the read end of its standard output
};

}  // namespace es::actors::esctl
