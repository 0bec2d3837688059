#pragma once
// The square tile in which every dense product ends: kSide x kSide results of one block, eight k at
// a time. Operands pass through shared memory as [k][row] and [k][column], in two stages: while one
// stage is multiplied, the next eight k are loaded. A thread has 4 x 4 blocks of results in
// registers.
//
// k beyond the end of a chain is +0 in both operands, which changes no bit
// (docs/reference/operators.md, G1).
#include <cstdint>

#include "gpu/canonical/scalar_math.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// Four floats at a 16-byte boundary; one access.
using Quad = Pack<4>;
ES_HD inline Quad load_quad(const float* p) {
  return load_pack<4>(p);
}
ES_HD inline void store_quad(float* p, const Quad& q) {
  store_pack(p, q);
}

constexpr int kTileDepth = 8;

template <int kSide>
struct Tile {
  static constexpr int kThreads = 2 * kSide;
  // The 4 x 4 blocks of a thread. Those of a run of 32 threads form 8 rows x 4 columns of blocks,
  // repeated.
  static constexpr int kRowQuads = kSide >= 64 ? 2 : 1;
  static constexpr int kColQuads = kSide >= 128 ? 2 : 1;
  static constexpr int kRows = 4 * kRowQuads, kCols = 4 * kColQuads;
  static constexpr int kRunsAcross = kSide / (16 * kColQuads);

  // Rows are four floats longer than needed, so that their columns are in different banks and stay
  // on 16-byte boundaries.
  struct Stage {
    alignas(16) float values[kTileDepth][kSide + 4];
  };
  struct Shared {
    Stage a[2], b[2];
  };
  using Sums = float[kRows][kCols];

  // For this thread: the first row of its row quad, and the first column of its column quad.
  ES_HD static int row(unsigned thread, int quad) {
    const int run = static_cast<int>(thread) / 32, lane = static_cast<int>(thread) % 32;
    return run / kRunsAcross * (32 * kRowQuads) + quad * 32 + lane / 4 * 4;
  }
  ES_HD static int col(unsigned thread, int quad) {
    const int run = static_cast<int>(thread) / 32, lane = static_cast<int>(thread) % 32;
    return run % kRunsAcross * (16 * kColQuads) + quad * 16 + lane % 4 * 4;
  }

  // Processes one k: sums += a column of A times a row of B.
  ES_HD static void step(const float* a, const float* b, unsigned thread, Sums& sums) {
    Quad left[kRowQuads], right[kColQuads];
    ES_UNROLL
    for (int q = 0; q < kRowQuads; ++q) left[q] = load_quad(a + row(thread, q));
    ES_UNROLL
    for (int q = 0; q < kColQuads; ++q) right[q] = load_quad(b + col(thread, q));
    ES_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const float factor = left[i / 4].v[i % 4];
      ES_UNROLL
      for (int q = 0; q < kColQuads; ++q) {
        ES_UNROLL
        for (int j = 0; j < 4; ++j) {
          sums[i][4 * q + j] = fma(factor, right[q].v[j], sums[i][4 * q + j]);
        }
      }
    }
  }

  // Computes the chain of the k in [begin, end) from +0. The operands (operands.h) fetch this
  // thread's share of eight k and put it into a stage.
  template <class Block, class A, class B>
  ES_HD static void chain(const Block& block, Shared& shared, const A& a, const B& b,
                          std::uint32_t begin, std::uint32_t end, Sums& sums) {
    ES_UNROLL
    for (int i = 0; i < kRows; ++i) {
      ES_UNROLL
      for (int j = 0; j < kCols; ++j) sums[i][j] = 0.0f;
    }
    a.put(a.fetch(begin, end), shared.a[0].values[0]);
    b.put(b.fetch(begin, end), shared.b[0].values[0]);
    block.sync();
    const unsigned thread = block.thread();
    int now = 0;
    for (std::uint32_t k = begin;; k += kTileDepth, now ^= 1) {
      // The fetch has no condition although the last one is not used: a fetch beyond the end reads
      // nothing. Under a condition the assembler of the GPU would move the reads behind the
      // products. As it is, they stay in front of half of them (device_code_check.py checks this).
      const Quad next_a = a.fetch(k + kTileDepth, end), next_b = b.fetch(k + kTileDepth, end);
      ES_UNROLL
      for (int i = 0; i < kTileDepth; ++i) {
        step(shared.a[now].values[i], shared.b[now].values[i], thread, sums);
        if (i == kTileDepth / 2 - 1) block.order();
      }
      if (k + kTileDepth >= end) break;
      a.put(next_a, shared.a[now ^ 1].values[0]);
      b.put(next_b, shared.b[now ^ 1].values[0]);
      // One barrier for each stage is enough: the stage that is written here was last read before
      // the previous barrier.
      block.sync();
    }
    block.sync();  // the next chain overwrites what other threads may still read
  }
};

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
