#pragma once
// The schema of a job's specification, made from the table of job fields (proto/base/job_fields.h).
#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

// The most elements of a list. CEL rules need a bound of everything that they compare.
inline constexpr int kListMax = 64;

// The properties by name, with their limits and with what `kubectl explain` shows.
Json job_properties();

}  // namespace es::actors::kubernetes
