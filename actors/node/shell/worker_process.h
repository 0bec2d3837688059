#pragma once
// Functions that start a worker process and wait for its end. Each one states on which thread it
// runs.
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "actors/base/protocol/core/process_exit.h"
#include "proto/base/result.h"

namespace es::actors {

// Starts argv[0] with stdout and stderr in `log_file`, which is created anew. The kernel kills the
// child when the calling thread ends, so call it from the thread that will wait for the child.
// Error (failure): the program or the log file cannot be used.
Result<pid_t> start_process(const std::vector<std::string>& argv,
                            const std::filesystem::path& log_file);

// Blocks until the child has ended. The last words of the result are the end of what a person
// should read of the log file (complaints_of in actors/base/log/line.h). The process id of the
// child stays in use until reap_process(), so that a signal to it cannot hit another process.
ProcessExit wait_for_process(pid_t pid, const std::filesystem::path& log_file);

// Call it after wait_for_process(), on the thread that would signal the process.
void reap_process(pid_t pid);

}  // namespace es::actors
