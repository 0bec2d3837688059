#pragma once
// Evaluates the version that an engine holds.
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "gpu/engine/engine.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"
#include "store/dataset/sample_source.h"

namespace es::actors::worker {

// Computes the metrics of all evaluation samples of `samples`, in their order, on the calling
// thread. `inputs` are those of the model file, nullptr for a built-in model. Returns the encoded
// totals (store/metrics/metric.h), or no value if `abandoned` returned true before a mini-batch.
// Errors: usage for a sample that cannot be loaded or that the engine refuses, so the data can be
// repaired; failure for everything else. After an error the caller checks engine.device_status().
// `free_slot` is that of Engine::evaluate(). REQUIRES: `version` is that of the engine.
Result<std::optional<std::vector<std::byte>>> evaluate(
    gpu::Engine& engine, const JobSpec& spec,
    const std::shared_ptr<const store::SampleSource>& samples, const store::CapturedInputs* inputs,
    Version version, float* free_slot, const std::function<bool()>& abandoned);

}  // namespace es::actors::worker
