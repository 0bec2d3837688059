#pragma once
// Between the specification of an ElasticTrainingJob and a job file. The keys of the specification
// are those of the table of job fields (proto/base/job_fields.h) in the spelling of Kubernetes:
// max_p is maxP, and optimizer.weight_decay is weightDecay in the object optimizer. The key `name`
// has no place there, because it is the name of the object.
#include <string>
#include <string_view>

#include "actors/kubernetes/core/names.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::actors::kubernetes {

// max_p -> maxP.
std::string camel_case(std::string_view key);

// Reads the specification of a job as if it were a job file. `minDevices` beside `devices` is the
// same as resources.minDevices. Error (usage): both, with different numbers; those of parse_job,
// with the keys of job files.
Result<JobSpec> job_spec_of(const Json& job);

}  // namespace es::actors::kubernetes
