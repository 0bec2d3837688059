#pragma once
// Index spaces of element-wise programs with the fewest dimensions. The namespace is unnamed for
// the reason given in scalar_math.h.
#include "gpu/canonical/program.h"

namespace es::gpu {
namespace {

// Returns the same space without dimensions of size 1, and with neighbouring dimensions joined if
// every input walks through them as through one. It has at least one dimension.
inline ElementSpace joined(const ElementSpace& space, std::int32_t inputs) {
  ElementSpace result;
  for (std::int32_t d = 0; d < space.rank; ++d) {
    if (space.size[d] == 1) continue;
    bool join = result.rank > 0;
    for (std::int32_t k = 0; join && k < inputs; ++k)
      join = result.stride[k][result.rank - 1] == space.stride[k][d] * space.size[d];
    const std::int32_t to = join ? result.rank - 1 : result.rank++;
    result.size[to] = join ? result.size[to] * space.size[d] : space.size[d];
    for (std::int32_t k = 0; k < inputs; ++k) result.stride[k][to] = space.stride[k][d];
  }
  if (result.rank == 0) {
    result.rank = 1;
    result.size[0] = 1;
  }
  return result;
}

}  // namespace
}  // namespace es::gpu
