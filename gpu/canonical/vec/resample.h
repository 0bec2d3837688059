#pragma once
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

inline void upsample2_bwd(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c,
                          const float* dy, float* dx) {
  for (std::int64_t row = 0; row < n * h; ++row) {
    for (std::int64_t col = 0; col < w; ++col, dx += c) {
      const float* first = dy + (row * 2 * (2 * w) + col * 2) * c;
      const float* second = first + 2 * w * c;
      for_vectors(c, [=](std::int64_t j, auto at) {
        Vec sum = add(zero(), at.load(first + j));
        sum = add(sum, at.load(first + c + j));
        sum = add(sum, at.load(second + j));
        at.store(dx + j, add(sum, at.load(second + c + j)));
      });
    }
  }
}

}  // namespace
}  // namespace es::gpu
