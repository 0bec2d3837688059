#pragma once
// Refusal: devices with which a job was measured to be slower than without them (grant_trial.h).
// Values; thread-safe.
#include <vector>

#include "proto/base/job_record.h"
#include "scheduler/model/model.h"

namespace es::scheduler {

using es::Refusal;

// The first refusal that applies to these devices; nullptr if there is none.
const Refusal* refusal_of(const std::vector<Refusal>& refusals, const DeviceSet& devices);

}  // namespace es::scheduler
