#pragma once
// Selection along one axis by indices that are part of the model.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/graph/builder.h"

namespace es::gpu {

// Rows have 32-bit numbers.
constexpr std::int64_t kTakeElementsMax = 0x7fffffff;

// y[..., i, ...] = x[..., index[i], ...] along the axis. The gradient of an element is the sum over
// the places that read it, as for embeddings. REQUIRES: every index is inside the axis, and x has
// at most kTakeElementsMax elements.
TensorId take_along(GraphBuilder& b, const std::string& name, TensorId x, int axis,
                    const std::vector<std::int32_t>& index);

}  // namespace es::gpu
