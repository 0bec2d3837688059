#pragma once
// Time steps of recurrent layers.
#include "gpu/canonical/vec/functions.h"
// The formulas see the operations on vectors that are declared before.
#include "gpu/canonical/recurrent_math.h"

namespace es::gpu {
namespace {

inline void recurrent_fwd(const RecurrentForward& s) {
  for (std::int64_t row = 0; row < s.rows; ++row)
    for_vectors(s.units, [&](std::int64_t unit, auto at) { recurrent_forward(s, row, unit, at); });
}

inline void recurrent_bwd(const RecurrentBackward& s) {
  for (std::int64_t row = 0; row < s.rows; ++row)
    for_vectors(s.units, [&](std::int64_t unit, auto at) { recurrent_backward(s, row, unit, at); });
}

}  // namespace
}  // namespace es::gpu
