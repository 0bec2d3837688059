#pragma once
// Small models that together hold every operator of the builder, in the situations that its
// gradient has to get right.
#include <string>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::test {

struct OperatorCase {
  std::string name;
  gpu::Graph graph;
};

// All but the YOLO loss. Batch 3.
std::vector<OperatorCase> operator_cases();

// Several operators one after the other, as in models: residual blocks, shared tensors, an encoder.
std::vector<OperatorCase> network_cases();

}  // namespace es::test
