#pragma once
// Fusion: fewer passes over memory with the same bits. Pure functions.
#include <optional>

#include "gpu/graph/chunk_losses.h"
#include "gpu/graph/graph.h"

namespace es::gpu {

// An attention whose q, k and v are the three thirds of the columns of one tensor, and that nothing
// else reads, reads this tensor in place. Then neither the thirds nor their gradients are copied.
// Pure function; no bit changes. REQUIRES: merge_slices() (merge_moves.h) was applied.
Graph pack_attention(Graph graph);

// If only a ReLU (or a leaky ReLU with slope kLeakySlope) reads the result of a batch norm, the
// batch norm also applies the activation. Its gradient recomputes the activation's mask from its
// input. REQUIRES: every chain has one stage.
Graph fuse_activations(Graph graph);

// A chain that only another chain reads becomes the first stages of that chain, in the forward pass
// and among the gradients, if this keeps no more tensors alive than before. Tensors that are no
// longer written stay in the list without an operator.
Program fuse_chains(Program program);

// The same for programs (kProgram): one that only another one reads, possibly through views,
// becomes part of that other one, if the limits of program.h allow it. A chain next to a program
// joins it if all stages are instructions.
Program fuse_programs(Program program);

// Returns a program (kProgram) as it is, and a chain as a program with the same bits; nothing for
// other operators, and if a stage is no instruction. All operands of such stages have the shape of
// the result.
std::optional<Op> as_program(const Graph& graph, const Op& op);

// A move that only another move reads, possibly through views, becomes part of that other move.
Program fuse_moves(Program program);

// A move of the forward pass that alone reads its input runs directly behind the operator that
// writes this, if fewer floats are live there. The import emits a move where its result is needed.
Program place_moves(Program program);

// Compiles a model: pack_attention, fuse_activations, choose_storage
// (precision.h), differentiate, chunk_losses (chunk_losses.h) of logits with at least
// `chunked_logits` floats, recompute (recompute.h), fuse_chains, fuse_programs, fuse_moves,
// place_moves, convert_storage (precision.h).
Program compile(Graph graph, std::int64_t chunked_logits = kChunkedLogits);

// The same for a model that is only evaluated: the program has no backward operators, and its
// memory plan no room for them. An evaluation has the bits of that of compile().
Program compile_forward(Graph graph);

}  // namespace es::gpu
