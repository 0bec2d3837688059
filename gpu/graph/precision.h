#pragma once
// Mixed precision: which tensors of a program are stored as bf16 (gpu/canonical/bf16.h). Pure
// functions, which change only graphs with Graph::bf16. docs/ARITHMETIC.md has the definition.
//
// All arithmetic is that of fp32. A number is rounded where a tensor that is stored as bf16 is
// written, and where a product reads a factor that is stored as fp32. So the definition needs the
// operators of a model and of its gradients, and neither fusion nor recomputation nor the memory
// plan: an operator that takes over a part of another one rounds what the other one would store.
#include "gpu/graph/differentiate.h"

namespace es::gpu {

// Sets Tensor::bf16 of a model's tensors:
//   - results of products, attention, norms and embeddings are bf16
//   - results of reductions and losses, statistics, and the states of recurrent layers are fp32
//   - a result of another operator is bf16 if one of its inputs is
//   - outputs, inputs of losses, and what they are computed from are fp32, back to the operators of
//     the first line and including their results
// REQUIRES: what fuse_activations() fuses is fused.
Graph choose_storage(Graph graph);

// Makes the conversions operators of the program, except those that the kernels of an operator do
// themselves (Operator::reads_bf16, writes_bf16). A conversion is a chain, and what it writes for
// an operator that needs fp32 lives only as long as this operator runs. REQUIRES: this is the last
// pass.
Program convert_storage(Program program);

// Returns whether the operator only converts numbers for the next one, or after the last one.
bool is_conversion(const Graph& graph, const Op& op);
// The same, or it names the parameter that the next operator converts.
bool is_part_of_conversion(const Graph& graph, std::size_t op);

}  // namespace es::gpu
