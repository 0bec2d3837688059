#pragma once
// The key under which the speed of a job's local steps is stored.
#include <string>

#include "proto/base/job_spec.h"
#include "proto/base/sample_layout.h"

namespace es::actors {

// Returns a text of everything that decides how long a local step takes, besides the batch size and
// the device type (which names its kernel class): architecture (name, size, width, classes,
// dropout, or the digest of the model file), the shape of a sample, compute threads, and the level,
// which chooses between vendor and canonical kernels. Example:
// "resnet18-tiny/w16/c10/p-1.000000/image:28x28x1,label:1x1x1<=9/t1/D2". The key does not contain
// what is not part of a local step: optimizer, schedule, augmentation, seed, max_p, weights.
// REQUIRES: a level other than auto; the digest of the model file is known.
std::string model_key(const JobSpec& spec, const SampleLayout& layout);

}  // namespace es::actors
