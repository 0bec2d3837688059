#pragma once
// The data of the built-in models for models from model files whose inputs are the same fields.
#include <memory>
#include <string>

#include "proto/base/job_spec.h"
#include "store/dataset/captured_inputs.h"
#include "store/dataset/sample_source.h"

namespace es::store {

// Returns a built-in model that has the same fields, and the number of classes. Error (usage): the
// inputs are those of no task.
Result<ModelSpec> model_of_task(const CapturedInputs& inputs, const std::string& kind);

// Wraps a source that such a model reads. Error (usage): its fields differ from the inputs.
Result<std::shared_ptr<const SampleSource>> captured_samples(
    std::shared_ptr<const SampleSource> source, const CapturedInputs& inputs,
    const std::string& kind);

}  // namespace es::store
