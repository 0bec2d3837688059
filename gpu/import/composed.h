#pragma once
// Operations of several operators that several kinds use.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/graph/builder.h"

namespace es::gpu {

// Concatenates any number of tensors. A move has a limited number of inputs, so more tensors are
// put together in groups first. REQUIRES: xs is not empty.
TensorId concat_all(GraphBuilder& b, const std::string& name, std::vector<TensorId> xs, int axis);

// Over the last axis: d - log(sum(exp(d))) with d = x - max(x).
TensorId log_softmax(GraphBuilder& b, const std::string& name, TensorId x);

// Rows have 32-bit numbers.
constexpr std::int64_t kTakeElementsMax = 0x7fffffff;

// y[..., i, ...] = x[..., index[i], ...] along the axis. The gradient of an element is the sum over
// the places that read it, as for embeddings. REQUIRES: every index is inside the axis, and x has
// at most kTakeElementsMax elements.
TensorId take_along(GraphBuilder& b, const std::string& name, TensorId x, int axis,
                    const std::vector<std::int32_t>& index);

}  // namespace es::gpu
