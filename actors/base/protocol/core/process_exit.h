#pragma once
// How a worker process ended. The node agent reports it, and the head shows it to users.
#include <cstddef>
#include <string>

namespace es::actors {

struct ProcessExit {
  int exit_code = -1;  // -1 if a signal ended it
  int signal = 0;
  std::string last_words;      // end of its errors and warnings, at most kLastWordsBytesMax
  bool out_of_memory = false;  // the kernel ended it, because there was no memory for it
};

// What ended a process, as far as its exit tells.
enum class EndCause {
  kItself,  // its program, or what it found where it ran
  kNode,    // its node; the job had no part in it
  kKilled,  // a signal from outside, or it was not needed any more
};
EndCause cause_of(const ProcessExit& exit);
// The kind of an exit: "signal 11", "status 1" or "out of memory".
std::string way_of(const ProcessExit& exit);

inline constexpr std::size_t kLastWordsBytesMax = 2048;

// The exit status of a worker process that could not be started, and of one that found that it can
// do no work on its node, whatever its job is.
inline constexpr int kNotStarted = 127;
inline constexpr int kNodeUnusable = 78;

// Returns "exited with status 1" or "was ended by signal 9 (SIGKILL, Killed)", with its last
// output.
std::string describe(const ProcessExit& exit);

}  // namespace es::actors
