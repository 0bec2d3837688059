#pragma once
// Starting a worker process and waiting for its end. No actor; each function says its thread.
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::actors {

struct ProcessExit {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string last_words;  // end of its stderr, at most kLastWordsBytesMax
};

inline constexpr std::size_t kLastWordsBytesMax = 2048;

// Starts argv[0] with stdout and stderr in `log_file` (made anew). The child is killed when the
// calling thread ends, so call it from the thread that will wait for it.
// Error (failure): the program or the log file cannot be used.
Result<pid_t> start_process(const std::vector<std::string>& argv,
                            const std::filesystem::path& log_file);

// Blocks until the child has ended. Its number stays taken until reap_process, so that whoever
// still signals it cannot hit another process.
ProcessExit wait_for_process(pid_t pid, const std::filesystem::path& log_file);

// After wait_for_process, by the thread that would signal it.
void reap_process(pid_t pid);

// "exited with status 1" or "was ended by signal 9 (Killed)", and its last words.
std::string describe(const ProcessExit& exit);

}  // namespace es::actors
