#pragma once
// Arranges the weights of convolutions in panels of B (tile.h).
#include "gpu/canonical/vec/tile.h"

namespace es::gpu {
namespace {

// Packs panels of `depth` rows from rows with contiguous columns. row(k) points to column 0.
template <class RowPointer>
void pack_rows(std::int64_t depth, std::int64_t columns, RowPointer row, float* out) {
  for (std::int64_t column = 0; column < columns; column += kPanelWidth) {
    const std::int64_t width = smaller(kPanelWidth, columns - column);
    const std::int64_t stride = panel_stride(width);
    const Part tail(width - (stride - kWidth));
    for (std::int64_t k = 0; k < depth; ++k, out += stride) {
      const float* from = row(k) + column;
      if (stride > kWidth) store(out, load(from));
      store(out + stride - kWidth, tail.load(from + stride - kWidth));
    }
  }
}

// Transposes four rows of four floats.
inline void transpose_4x4(const float* from, std::int64_t from_stride, float* to,
                          std::int64_t to_stride) {
  __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + from_stride);
  __m128 r2 = _mm_loadu_ps(from + 2 * from_stride), r3 = _mm_loadu_ps(from + 3 * from_stride);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + to_stride, r1);
  _mm_storeu_ps(to + 2 * to_stride, r2);
  _mm_storeu_ps(to + 3 * to_stride, r3);
}

// to[k * to_stride + j] = from[j * column_stride + k] for whole blocks of kWidth columns and four
// k.
inline void transpose_blocks(std::int64_t depth, std::int64_t columns, const float* from,
                             std::int64_t column_stride, float* to, std::int64_t to_stride) {
  for (std::int64_t j = 0; j < columns; j += kWidth) {
    for (std::int64_t k = 0; k < depth; k += 4) {
      Vec lanes[4];
      transpose_four(from + j * column_stride + k, column_stride, lanes);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) store(to + (k + i) * to_stride + j, lanes[i]);
    }
  }
}

// to[k * to_stride + j] = from[j * column_stride + k * k_stride] for j < columns, and +0 up to
// to_columns.
inline void pack_transposed(std::int64_t depth, std::int64_t columns, const float* from,
                            std::int64_t k_stride, std::int64_t column_stride, float* to,
                            std::int64_t to_stride, std::int64_t to_columns) {
  std::int64_t whole_depth = 0, whole_columns = 0;
  if (k_stride == 1) {
    whole_depth = depth / 4 * 4;
    whole_columns = columns / kWidth * kWidth;
    transpose_blocks(whole_depth, whole_columns, from, column_stride, to, to_stride);
    for (; whole_columns + 4 <= columns; whole_columns += 4) {
      for (std::int64_t k = 0; k < whole_depth; k += 4) {
        transpose_4x4(from + whole_columns * column_stride + k, column_stride,
                      to + k * to_stride + whole_columns, to_stride);
      }
    }
  }
  for (std::int64_t k = 0; k < depth; ++k) {
    for (std::int64_t j = k < whole_depth ? whole_columns : 0; j < to_columns; ++j) {
      to[k * to_stride + j] = j < columns ? from[j * column_stride + k * k_stride] : 0.0f;
    }
  }
}

// Packs panels of a matrix with any strides.
inline void pack_panels(std::int64_t depth, std::int64_t columns, const float* from,
                        std::int64_t k_stride, std::int64_t column_stride, float* out) {
  if (column_stride == 1) {
    return pack_rows(
        depth, columns, [=](std::int64_t k) { return from + k * k_stride; }, out);
  }
  for (std::int64_t column = 0; column < columns; column += kPanelWidth) {
    const std::int64_t width = smaller(kPanelWidth, columns - column);
    const std::int64_t stride = panel_stride(width);
    pack_transposed(depth, width, from + column * column_stride, k_stride, column_stride, out,
                    stride, stride);
    out += depth * stride;
  }
}

}  // namespace
}  // namespace es::gpu
