#pragma once
// The forward pass of the model in fp64, written from the textbook definitions of the operators. It
// shares no code with the kernels. It is the reference for losses and, by finite differences, for
// gradients. It knows every operator except the YOLO loss.
#include <vector>

#include "gpu/base/batch.h"
#include "gpu/graph/graph.h"

namespace es::test {

// Mean loss in training mode (batch statistics, dropout). `params` has the flat layout.
double reference_loss(const gpu::Graph& graph, const std::vector<double>& params,
                      const gpu::Batch& batch, const gpu::DropoutKey& key);

}  // namespace es::test
