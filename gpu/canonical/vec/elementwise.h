#pragma once
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

inline void relu_fwd(std::int64_t n, const float* x, float* y) {
  for_vectors(n, [=](std::int64_t i, auto at) { at.store(y + i, positive_part(at.load(x + i))); });
}

inline void relu_bwd(std::int64_t n, const float* y, const float* dy, float* dx) {
  for_vectors(n, [=](std::int64_t i, auto at) {
    at.store(dx + i, keep_positive(at.load(dy + i), at.load(y + i)));
  });
}

inline void add_floats(std::int64_t n, const float* a, const float* b, float* y) {
  for_vectors(
      n, [=](std::int64_t i, auto at) { at.store(y + i, add(at.load(a + i), at.load(b + i))); });
}

inline void add_relu(std::int64_t n, const float* a, const float* b, float* y) {
  for_vectors(n, [=](std::int64_t i, auto at) {
    at.store(y + i, positive_part(add(at.load(a + i), at.load(b + i))));
  });
}

inline void scale(std::int64_t n, const float* x, float factor, float* y) {
  const Vec factors = set(factor);
  for_vectors(n, [=](std::int64_t i, auto at) { at.store(y + i, mul(at.load(x + i), factors)); });
}

}  // namespace
}  // namespace es::gpu
