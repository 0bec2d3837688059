#pragma once
// The model's forward pass in fp64, written straight from the operators' textbook definitions and
// sharing no code with the kernels: the oracle for losses and, by finite differences, for
// gradients.
#include <cstdint>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::test {

// Mean loss in training mode (batch statistics). `params` has the flat layout.
double reference_loss(const gpu::Graph& graph, const std::vector<double>& params,
                      const std::vector<float>& images, const std::vector<std::int32_t>& labels);

}  // namespace es::test
