#pragma once
// Networks of random sizes. Together they give every kernel that depends on a shape some shapes
// that fill its tiles and some that do not. Some of them have regions (gpu/graph/recompute.h).
#include <random>

#include "gpu/graph/graph.h"

namespace es::test {

// Convolutions of all kinds, batch norms, pools, linear layers. `side` limits images and channels.
gpu::Graph random_image_network(std::mt19937_64& random, std::int64_t side);
// Embedding, layer norms, attention, linear layers, softmax.
gpu::Graph random_token_network(std::mt19937_64& random, std::int64_t side);

}  // namespace es::test
