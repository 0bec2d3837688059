#pragma once
// The arithmetic of the products of a model (docs/ARITHMETIC.md, "Exact products"). Pure functions.
//
// It is that of linear layers and matrix products with their gradients. Convolutions, attention,
// the steps of recurrent layers and captured optimizers always compute in fp32.
#include <string>

#include "gpu/graph/graph.h"

namespace es::gpu {

// Returns the model with an arithmetic of its products (JobSpec::arithmetic), and marks its linear
// layers whose result goes into a cross entropy. REQUIRES: nothing is differentiated, fused or
// recomputed yet.
Graph choose_arithmetic(Graph model, const std::string& arithmetic);

// Returns the arithmetic of an operator that is a product.
Arithmetic arithmetic_of(const Graph& graph, const Op& op);
// Returns that of a linear layer and of its gradients. Under x15 the gradients of a layer before a
// cross entropy are computed in x22: the elements of a row of the loss's gradient differ by many
// binades, and the small ones would become zeros.
Arithmetic arithmetic_of_gradients(const Graph& graph, const Op& op);

}  // namespace es::gpu
