#pragma once
// Checks whether the samples of a dataset fit the models of a task.
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "proto/base/sample_layout.h"

namespace es::gpu {

// Checks that `layout` has the fields of the model's task with their types and sizes, and that
// model.classes agrees with the range of the labels. Error (usage): the text names model, field,
// value and what is allowed.
Status check_samples(const ModelSpec& spec, const SampleLayout& layout);

// Checks that the sides of the image are at least `least` pixels and multiples of `multiple`
// pixels. A layout without an image passes. Error (usage): likewise.
Status check_image_sides(const ModelSpec& spec, const SampleLayout& layout, std::int64_t least,
                         std::int64_t multiple);

}  // namespace es::gpu
