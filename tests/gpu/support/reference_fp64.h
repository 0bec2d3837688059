#pragma once
// The model's forward pass in fp64, written straight from the operators' textbook definitions and
// sharing no code with the kernels: the oracle for losses and, by finite differences, for
// gradients. Knows every operator but the YOLO loss.
#include <vector>

#include "gpu/base/batch.h"
#include "gpu/graph/graph.h"

namespace es::test {

// Mean loss in training mode (batch statistics, dropout). `params` has the flat layout.
double reference_loss(const gpu::Graph& graph, const std::vector<double>& params,
                      const gpu::Batch& batch, const gpu::DropoutKey& key);

}  // namespace es::test
