#pragma once
// StopSignals: turns requests to stop into a file descriptor that can be polled, instead of a
// handler that interrupts arbitrary code. The signals are SIGINT, SIGTERM, SIGHUP, and SIGPIPE,
// which means that the reader of the output has gone.
//
// While an object exists, these signals do not end the process. SIGCHLD is received too, so that a
// wait for a child ends when the child does, and SIGWINCH, so that a wait ends when the size of the
// terminal changes. At most one object may exist. Create it before any thread starts, because
// threads inherit the blocked signals.
#include <signal.h>

#include <chrono>

namespace es::actors::esctl {

class StopSignals {
 public:
  StopSignals();
  // Pending signals are dropped.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable when a signal is pending.
  int fd() const { return fd_; }
  // Takes the pending signals.
  void take();

  // Of the signals taken: the first request to stop (0 if there is none), and their number.
  int first() const { return first_; }
  int count() const { return count_; }

  // For the child between fork and exec: restores the state before the constructor.
  void restore() const;

 private:
  sigset_t mask_before_;
  int fd_ = -1;
  int first_ = 0;
  int count_ = 0;
};

}  // namespace es::actors::esctl
