// The exact product (G1X): the definition as plain loops.
#include "gpu/canonical/exact_math.h"
#include "gpu/canonical/scalar/scalar.h"

namespace es::gpu::scalar {
namespace {

// Columns whose integers are in the workspace together.
constexpr std::int64_t kColumns = 64;

// The numbers [0, depth) of a row of A or a column of B, which are `step` apart.
struct ExactRow {
  Factor stored;
  const float* x;
  std::int64_t first, step, depth;

  float at(std::int64_t k) const { return read_number(stored, x, first + k * step); }

  // Writes the integers, and returns their scale.
  float make_integers(Arithmetic arithmetic, float* integers) const {
    std::uint32_t most = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      const std::uint32_t bits = magnitude_bits(at(k));
      if (most < bits) most = bits;
    }
    const ExactScale scale = exact_scale(arithmetic, most);
    for (std::int64_t k = 0; k < depth; ++k) integers[k] = exact_integer(arithmetic, at(k), scale);
    return scale.scale;
  }
};

std::int64_t exact_sum(std::int64_t depth, const float* a, const float* b) {
  std::int64_t sum = 0;
  for (std::int64_t k = 0; k < depth; ++k)
    sum += static_cast<std::int64_t>(a[k]) * static_cast<std::int64_t>(b[k]);
  return sum;
}

}  // namespace

std::size_t exact_workspace_floats(const GemmShape& s) {
  const std::int64_t rows = 1 + smaller(kColumns, s.n);
  return static_cast<std::size_t>(rows * smaller(kDotChunk, s.k) + rows);
}

void exact_gemm(const GemmShape& s, const float* a, const float* b, const float* bias, float* c,
                float* ws) {
  for (std::int64_t begin = 0; begin < s.n; begin += kColumns) {
    const std::int64_t columns = smaller(kColumns, s.n - begin);
    for (std::int64_t first = 0; first < s.k; first += kDotChunk) {
      const std::int64_t depth = smaller(kDotChunk, s.k - first);
      float *const left = ws, *const right = left + depth, *const scales = right + columns * depth;
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t at = first * s.b_row + (begin + j) * s.b_col;
        scales[j] = ExactRow{s.b_stored, b, at, s.b_row, depth}.make_integers(s.arithmetic,
                                                                              right + j * depth);
      }
      for (std::int64_t i = 0; i < s.m; ++i) {
        const std::int64_t at = i * s.a_row + first * s.a_col;
        const float scale =
            ExactRow{s.a_stored, a, at, s.a_col, depth}.make_integers(s.arithmetic, left);
        for (std::int64_t j = 0; j < columns; ++j) {
          float& out = c[i * s.c_row + (begin + j) * s.c_col];
          const auto sum = static_cast<float>(exact_sum(depth, left, right + j * depth));
          // The first chunk is added to +0, which turns a result of -0 into +0.
          out = (first == 0 && !s.add ? 0.0f : out) + exact_result(sum, scale, scales[j]);
        }
      }
    }
  }
  for (std::int64_t i = 0; i < s.m; ++i)
    for (std::int64_t j = 0; j < s.n; ++j) {
      float& out = c[i * s.c_row + j * s.c_col];
      out = with_one_nan(out);
      if (bias != nullptr) out = out + bias[j];
    }
}

}  // namespace es::gpu::scalar
