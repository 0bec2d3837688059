#pragma once
// Whether a dataset's samples are what the models of a task take.
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

// Checks that `layout` has the fields of the model's task with their types and sizes, and that
// model.classes agrees with the labels' range. Error (usage): names model, field, value, allowed.
Status check_samples(const ModelSpec& spec, const SampleLayout& layout);

// The image's sides are at least `least` and multiples of `multiple` pixels. A layout without
// images passes.
Status check_image_sides(const ModelSpec& spec, const SampleLayout& layout, std::int64_t least,
                         std::int64_t multiple);

}  // namespace es::gpu
