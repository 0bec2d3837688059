#pragma once
// Fusion: fewer passes over memory, the same bits. Pure functions.
#include "gpu/graph/differentiate.h"

namespace es::gpu {

// A batch norm whose result only a ReLU (or a leaky ReLU of slope kLeakySlope) reads does both, and
// its gradient finds the mask again from its input. REQUIRES: chains have one stage.
Graph fuse_activations(Graph graph);

// A chain that only another chain reads becomes the first stages of that chain, forwards as well as
// among the gradients, where this keeps no more tensors alive than before. Tensors that are no
// longer written stay in the list, without operator.
Program fuse_chains(Program program);

// A move that only another move reads, be it through views, is done on the way by that one.
Program fuse_moves(Program program);

// From a model to what runs: fuse_activations, differentiate, fuse_chains, fuse_moves.
Program compile(Graph graph);

}  // namespace es::gpu
