#pragma once
// Slurm's client programs, found by PATH: sbatch, squeue, sinfo, scancel. Every call runs one
// program to its end. Not thread-safe; SIGCHLD may be blocked.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/esctl/slurm/slurm_text.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// Runs a program with these arguments and additional variables, and returns its standard output.
// Errors: not found (no such program on PATH); failure (its exit status is not 0; the message has
// the last line of its standard error).
Result<std::string> run_program_of_slurm(const std::vector<std::string>& words,
                                         const std::map<std::string, std::string>& variables = {});

// The jobs of this user with these names that are not over.
Result<std::vector<QueuedJob>> jobs_named(const std::vector<std::string>& names);

// Those of these nodes that get no new jobs.
Result<std::set<std::string>> draining_nodes(const std::set<std::string>& nodes);

// Submits a script and returns the job's number.
Result<std::string> submit_script(const std::vector<std::string>& options,
                                  const std::string& script,
                                  const std::vector<std::string>& arguments,
                                  const std::map<std::string, std::string>& variables);

// Ends jobs: those that wait are removed; the processes of those that run get SIGTERM and, after
// Slurm's KillWait, SIGKILL.
Status cancel_jobs(const std::vector<std::string>& ids);
// Sends SIGTERM to the processes of running jobs and leaves them the time that they need.
Status terminate_jobs(const std::vector<std::string>& ids);

}  // namespace es::actors::esctl
