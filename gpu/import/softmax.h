#pragma once
// The logarithm of a softmax, which several kinds use.
#include <string>

#include "gpu/graph/builder.h"

namespace es::gpu {

// Over the last axis: d - log(sum(exp(d))) with d = x - max(x).
TensorId log_softmax(GraphBuilder& b, const std::string& name, TensorId x);

}  // namespace es::gpu
