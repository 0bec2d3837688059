#pragma once
// The operands of a product (tile.h): the places of their elements (row, k). "Row" means a row of A
// or a column of B. A thread fetches four neighbours of each eight k, in the direction in which
// memory is contiguous. Elements beyond the rows or beyond k are +0.
#include <cstddef>
#include <cstdint>

#include "gpu/cuda/kernels/divider.h"
#include "gpu/cuda/kernels/product_cut.h"
#include "gpu/cuda/kernels/tile.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// The index of a product in a batch.
struct BatchIndex {
  std::uint32_t outer, inner;
  ES_HD std::int64_t offset(const BatchSteps& steps) const {
    return outer * steps.outer + inner * steps.inner;
  }
};

// Returns whether four floats from p on, and from any multiple of `step` floats further, are one
// access.
inline bool in_quads(const void* p, std::int64_t step) {
  return reinterpret_cast<std::uintptr_t>(p) % sizeof(Quad) == 0 && step % 4 == 0;
}
inline bool in_quads(const void* p, const BatchSteps& steps) {
  return in_quads(p, steps.outer) && in_quads(p, steps.inner);
}

// The largest tile has no registers left for addresses of single floats.
template <int kSide>
ES_HD constexpr bool only_quads() {
  return kSide == 128;
}

// Four neighbours along k, of row thread / 2.
template <int kSide>
struct QuadAlongDepth {
  static constexpr bool kAlongDepth = true;
  static constexpr std::uint32_t kRowsAtOnce = 1;
  ES_HD static std::uint32_t row(unsigned thread) { return thread / 2; }
  ES_HD static std::uint32_t depth(unsigned thread) { return thread % 2 * 4; }
  ES_HD static void put(unsigned thread, const Quad& q, float* stage) {
    float* to = stage + depth(thread) * (kSide + 4) + row(thread);
    to[0] = q.v[0];
    to[kSide + 4] = q.v[1];
    to[2 * (kSide + 4)] = q.v[2];
    to[3 * (kSide + 4)] = q.v[3];
  }
};
// Four neighbouring rows of one k.
template <int kSide>
struct QuadAlongRows {
  static constexpr bool kAlongDepth = false;
  static constexpr std::uint32_t kRowsAtOnce = 4;
  ES_HD static std::uint32_t row(unsigned thread) { return thread % (kSide / 4) * 4; }
  ES_HD static std::uint32_t depth(unsigned thread) { return thread / (kSide / 4); }
  ES_HD static void put(unsigned thread, const Quad& q, float* stage) {
    store_quad(stage + depth(thread) * (kSide + 4) + row(thread), q);
  }
};

// Returns the values of a quad that exist: value(i) for i < count. The others are +0.
template <class Value>
ES_HD Quad gather_quad(std::uint32_t count, const Value& value) {
  Quad q{};
  if (count > 0) q.v[0] = value(0);
  if (count > 1) q.v[1] = value(1);
  if (count > 2) q.v[2] = value(2);
  if (count > 3) q.v[3] = value(3);
  return q;
}

// A matrix: element (row, k) is p[row * row_step + k * depth_step].
template <template <int> class Placed>
struct Matrix {
  const float* p;
  std::int64_t row_step, depth_step;
  std::uint32_t rows;
  BatchSteps batch;
  bool quads;  // four neighbours exist together or not at all, and are one access

  template <int kSide>
  struct Thread {
    const float* p;  // of this thread's row and this thread's k
    std::int64_t row_step, depth_step;
    std::uint32_t rows;  // number of this thread's rows that exist
    unsigned thread;
    bool quads;

    ES_HD void put(const Quad& q, float* stage) const { Placed<kSide>::put(thread, q, stage); }
    ES_HD Quad fetch(std::uint32_t k, std::uint32_t end) const {
      const float* at = p + k * depth_step;
      const std::uint32_t first = k + Placed<kSide>::depth(thread);
      if (only_quads<kSide>() || quads) return first < end ? load_quad(at) : Quad{};
      if (Placed<kSide>::kAlongDepth) {
        const std::uint32_t count = first < end && rows > 0 ? end - first : 0;
        return gather_quad(count, [&](int i) { return at[i * depth_step]; });
      }
      return gather_quad(first < end ? rows : 0, [&](int i) { return at[i * row_step]; });
    }
  };

  // Rows beyond the end produce results that are discarded, so a quad there reads the last rows
  // instead.
  template <int kSide>
  ES_HD Thread<kSide> at(unsigned thread, std::uint32_t first_row, const BatchIndex& index) const {
    std::uint32_t row = first_row + Placed<kSide>::row(thread);
    const std::uint32_t left = row < rows ? rows - row : 0;
    if (quads && left == 0) row = rows - Placed<kSide>::kRowsAtOnce;
    return {p + index.offset(batch) + row * row_step + Placed<kSide>::depth(thread) * depth_step,
            row_step,
            depth_step,
            left,
            thread,
            quads};
  }
};

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
