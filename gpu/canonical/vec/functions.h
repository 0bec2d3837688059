#pragma once
// All elementary functions for vectors. The formulas of functions_math.h and element_math.h see
// only the operations on vectors that are declared before they are included.
#include "gpu/canonical/turn_math.h"
#include "gpu/canonical/vec/bf16.h"
#include "gpu/canonical/vec/math.h"

namespace es::gpu {
namespace {

// The lanes whose angle is large are computed one after the other, so that the result of a lane
// does not depend on its neighbours.
inline void turn_far(Vec x, Vec& r, Vec& low, IntVec& n) {
  const Test far = either(less_equal(set(kTurnLimit), absolute(x)), unordered(x, x));
  if (__builtin_expect(!any(far), 1)) return;
  float angles[kWidth], rs[kWidth], lows[kWidth];
  std::int32_t turns[kWidth];
  store(angles, x);
  store(rs, r);
  store(lows, low);
  store_ints(turns, n);
  for (int i = 0; i < kWidth; ++i) turn_far(angles[i], rs[i], lows[i], turns[i]);
  r = load(rs);
  low = load(lows);
  n = load_ints(turns);
}

// As in one_lane.h.
inline IntVec truncated(Vec v) {
  const Test high = less_equal(set(0x1p31f), v), low = less_equal(v, set(-0x1p31f));
  const Test inside = less(absolute(v), set(0x1p31f));
  const IntVec whole = truncated_inside(keep_if(inside, v));  // 0 for NaN
  return select(high, set_int(INT32_MAX), select(low, set_int(INT32_MIN), whole));
}

}  // namespace
}  // namespace es::gpu

#include "gpu/canonical/element_math.h"
