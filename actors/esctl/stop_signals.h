#pragma once
// StopSignals: the wish to stop (SIGINT, SIGTERM, SIGHUP, and SIGPIPE: nobody reads the output any
// more) as a file descriptor to wait for, instead of a handler that interrupts anything anywhere.
//
// While one exists the process is not ended by these signals. SIGCHLD is taken too,
// so that a wait for a child ends when the child does. At most one at a time; create it before any
// thread starts, since threads inherit what is blocked.
#include <signal.h>

#include <chrono>

namespace es::actors::esctl {

class StopSignals {
 public:
  StopSignals();
  // Signals that wait are forgotten.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Readable when a signal waits to be taken.
  int fd() const { return fd_; }
  // Takes the signals that wait.
  void take();

  // Of the signals taken: the first wish to stop (0: none), and how many there were.
  int first() const { return first_; }
  int count() const { return count_; }

  // For the child, between fork and exec: everything as before the constructor.
  void restore() const;

 private:
  sigset_t mask_before_;
  int fd_ = -1;
  int first_ = 0;
  int count_ = 0;
};

}  // namespace es::actors::esctl
