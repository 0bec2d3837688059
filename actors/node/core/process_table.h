#pragma once
// ProcessTable: the worker processes of a node, and the decisions about their start and end.
//
// It has no clock, no I/O and no actor. Not thread-safe; it has one owner.
//
// Invariants:
// * An incarnation is started at most once while it is in the table.
// * A process that has to be killed is signalled as soon as its process id is known, and never
//   after it was reaped.
// * After drain() no process is started.
#include <sys/types.h>

#include <map>
#include <optional>
#include <vector>

#include "proto/base/ids.h"

namespace es::actors {

class ProcessTable {
 public:
  enum class Start {
    kNow,      // the process is in the table now; the caller starts it
    kKnown,    // it was started before
    kRefused,  // the node drains
  };
  Start start(const JobId& job, Incarnation incarnation);
  // The process could not be started and has no supervisor. REQUIRES: start() returned kNow.
  void not_started(Incarnation incarnation) { processes_.erase(incarnation); }

  enum class Kill {
    kUnknown,  // there is no such process
    kLater,    // its process id is not known yet; started() asks for the signal
    kNow,      // the caller signals the process
  };
  Kill kill(Incarnation incarnation);
  // The supervisor has started the process. Returns whether the caller has to kill it now.
  // REQUIRES: the process is in the table and `pid` is not 0.
  bool started(Incarnation incarnation, pid_t pid);
  // The job of a process. REQUIRES: the process is in the table.
  const JobId& job(Incarnation incarnation) const { return processes_.at(incarnation).job; }
  // The process id; 0 until the process is started. REQUIRES: the process is in the table.
  pid_t pid(Incarnation incarnation) const { return processes_.at(incarnation).pid; }

  // The process has ended, or could not be started. Returns its job; no value if the process is not
  // in the table. The caller first reaps the process.
  std::optional<JobId> ended(Incarnation incarnation);

  // No process is started from now on.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // Returns whether the node drains and no process is left.
  bool drained() const { return draining_ && processes_.empty(); }

  bool contains(Incarnation incarnation) const { return processes_.contains(incarnation); }
  std::vector<Incarnation> incarnations() const;  // in ascending order

 private:
  struct Process {
    JobId job;
    pid_t pid = 0;
    bool doomed = false;  // it has to be killed as soon as it is started
  };
  std::map<Incarnation, Process> processes_;
  bool draining_ = false;
};

}  // namespace es::actors
