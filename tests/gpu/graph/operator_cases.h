#pragma once
// Small models that together contain every operator of the builder, in the situations that its
// gradient has to handle.
#include <string>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::test {

struct OperatorCase {
  std::string name;
  gpu::Graph graph;
};

// All but the YOLO loss, with batch size 3.
std::vector<OperatorCase> operator_cases();

// Those of general element-wise operators and reductions, which operator_cases() includes.
std::vector<OperatorCase> program_cases();

// Several operators in sequence, as in models: residual blocks, shared tensors, an encoder.
std::vector<OperatorCase> network_cases();

// A linear layer over more rows than chunk_losses.h computes at a time, and its cross entropy: with
// and without a bias, with a weight that is a tensor, and with views of the logits.
std::vector<OperatorCase> chunked_loss_cases();

}  // namespace es::test
