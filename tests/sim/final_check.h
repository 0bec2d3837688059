#pragma once
// The conditions that a simulated world must satisfy when its faults are over.
#include <map>
#include <string>

#include "tests/sim/sim_world.h"

namespace es::test {

// Waits until every job has ended and no process is left. Returns an empty text, or the first
// error: a job hangs, a ledger line or the final state differs from the reference, an epoch is not
// the data set in its order, something is left running or held, or a forbidden event happened.
// `jobs` lists all jobs that were submitted.
//
// A job may fail if its limits allow that (too many losses without progress, a process that does
// not become ready, devices that are missing before its first step). That is counted in `remarks`.
// A job that fails because the last checkpoint of its series could not be written is counted there
// too. Its ledger and its samples are checked like those of any other job.
std::string final_check(SimWorld& world, const std::map<JobId, JobSpec>& jobs,
                        std::map<std::string, int>& remarks);

}  // namespace es::test
