#pragma once
// DOT (G1), the rule of every dense product.
#include "gpu/canonical/scalar_math.h"

namespace es::gpu {
namespace {

// `count` DOT(K) results that advance together, one k at a time. A chunk of 512 k is one chain of
// fused multiply-adds from +0. The chunk results are added to +0 in ascending order.
class Dots {
 public:
  // Result j is written to out[j * out_stride]. `acc` has `count` floats of scratch memory.
  // If `add`, `out` contains the sum of earlier chunks.
  Dots(std::int64_t count, float* acc, float* out, std::int64_t out_stride = 1, bool add = false)
      : count_(count), acc_(acc), out_(out), out_stride_(out_stride), add_(add) {}

  // Processes the next k: adds a times b[j * b_stride] to result j.
  void step(float a, const float* b, std::int64_t b_stride = 1) {
    if (k_ % kDotChunk == 0) begin_chunk();
    for (std::int64_t j = 0; j < count_; ++j) acc_[j] = fma(a, b[j * b_stride], acc_[j]);
    if (++k_ % kDotChunk == 0) end_chunk();
  }

  // Must be called after the last k. Without any k the result is +0.
  void finish() {
    if (k_ == 0) begin_chunk();
    if (k_ == 0 || k_ % kDotChunk != 0) end_chunk();
  }

 private:
  void begin_chunk() {
    for (std::int64_t j = 0; j < count_; ++j) acc_[j] = 0.0f;
  }
  void end_chunk() {
    for (std::int64_t j = 0; j < count_; ++j) {
      float& out = out_[j * out_stride_];
      // The first chunk is added to +0, which turns a result of -0 into +0.
      out = (k_ <= kDotChunk && !add_ ? 0.0f : out) + acc_[j];
    }
  }

  const std::int64_t count_;
  float* const acc_;
  float* const out_;
  const std::int64_t out_stride_;
  const bool add_;
  std::int64_t k_ = 0;
};

}  // namespace
}  // namespace es::gpu
