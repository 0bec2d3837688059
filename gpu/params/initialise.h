#pragma once
// Initial parameters: a pure function of (job seed, model).
#include <cstdint>
#include <vector>

#include "gpu/params/param_table.h"

namespace es::gpu {

// Fills a flat array (padding +0). Element e of parameter i in our memory order is
//   constant + bound * (2u - 1)   (one fma)   with u = (w >> 8) * 2^-24 in [0, 1)
// where w is word e mod 4 of Philox4x32-10 with key = seed and counter = (e / 4, i, stream).
void initialise_params(const ParamTable& table, std::uint64_t seed, float* flat);

// Statistics of an EST at version 0: means 0, variances 1.
std::vector<float> initial_stats(const ParamTable& table);

}  // namespace es::gpu
