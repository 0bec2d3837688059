#pragma once
// What must be true of a simulated world when its faults are over.
#include <map>
#include <string>

#include "tests/sim/sim_world.h"

namespace es::test {

// Waits until every job is over and no process is left. Empty, or the first thing that is wrong: a
// job hangs, a ledger line or the final state differs from the reference's, an epoch is not
// the data set in its order, something is left running or held, or anything happened that must
// never happen. `jobs`: all that were submitted.
//
// A job may give up where its limits allow that (too many losses without progress, a process that
// does not come up, devices that are not there before it has ever run); that is counted in
// `remarks`. So is a job that fails because the last checkpoint of its series could not be written;
// its ledger and its samples are checked like those of any other.
std::string final_check(SimWorld& world, const std::map<JobId, JobSpec>& jobs,
                        std::map<std::string, int>& remarks);

}  // namespace es::test
