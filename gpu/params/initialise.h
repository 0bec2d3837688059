#pragma once
// Initial parameters: a pure function of the job's seed and the model.
#include <cstdint>
#include <vector>

#include "gpu/params/param_table.h"

namespace es::gpu {

// Fills a flat array; the padding becomes +0. Element e of parameter i, counted in memory order, is
//   constant + bound * (2u - 1)   (one fma)   with u = (w >> 8) * 2^-24 in [0, 1)
// where w is word e mod 4 of Philox4x32-10 with key = seed and counter = (e / 4, i, stream, 0).
void initialise_params(const ParamTable& table, std::uint64_t seed, float* flat);

// Returns the statistics of an EST at version 0: means and states are 0, and variances are 1.
std::vector<float> initial_stats(const ParamTable& table);

}  // namespace es::gpu
