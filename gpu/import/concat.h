#pragma once
// Concatenation of any number of tensors.
#include <string>
#include <vector>

#include "gpu/graph/builder.h"

namespace es::gpu {

// A move has a limited number of inputs, so more tensors are put together in groups first.
// REQUIRES: xs is not empty.
TensorId concat_all(GraphBuilder& b, const std::string& name, std::vector<TensorId> xs, int axis);

}  // namespace es::gpu
