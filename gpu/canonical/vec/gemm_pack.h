#pragma once
// Copies parts of GEMM operands into the layouts that gemm_tile.h reads, and describes their
// prefetching.
#include "gpu/canonical/vec/bf16.h"
#include "gpu/canonical/vec/gemm_plan.h"
#include "gpu/canonical/vec/pack.h"

namespace es::gpu {
namespace {

// A half-open range of k, rows or columns.
struct Span {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
};

// Returns tile `index` of a block of rows, which is divided into equal tiles.
inline Span tile_rows(const Span& rows, std::int64_t index) {
  const std::int64_t tiles = ceil_div(rows.size(), kTileRows);
  return {rows.begin + index * rows.size() / tiles, rows.begin + (index + 1) * rows.size() / tiles};
}

// --- Copies of operands that are not read as they are stored (Factor).

// Copies n numbers of an operand from number `first` on as fp32 numbers.
inline void copy_numbers(Factor stored, const float* x, std::int64_t first, std::int64_t n,
                         float* to) {
  if (stored == Factor::kBf16) return widen(n, reinterpret_cast<const Bf16*>(x) + first, to);
  for_vectors(n, [&](std::int64_t i, auto at) {
    at.store(to + i, rounded_to_bf16(at.load(x + first + i)));
  });
}

// Calls body(at), where at(i) returns a vector of fp32 numbers from number i of an operand on.
template <class Body>
inline __attribute__((always_inline)) void with_vectors(Factor stored, const float* x, Body body) {
  if (stored == Factor::kBf16) {
    const auto* const numbers = reinterpret_cast<const Bf16*>(x);
    body([=](std::int64_t i) { return from_bits(load_upper_halves(numbers + i)); });
  } else {
    body([=](std::int64_t i) { return rounded_to_bf16(load(x + i)); });
  }
}

// The same result as pack_transposed(): a few k at a time are converted to rows of fp32 numbers,
// which are then transposed.
inline void pack_converted(Factor stored, std::int64_t depth, std::int64_t columns, const float* x,
                           std::int64_t first, std::int64_t k_stride, std::int64_t column_stride,
                           float* to, std::int64_t to_stride, std::int64_t to_columns) {
  constexpr std::int64_t kDepth = 64, kRow = kDepth + kLineFloats;
  alignas(64) float rows[kPanelWidth * kRow];
  for (std::int64_t k = 0; k < depth; k += kDepth) {
    const std::int64_t n = smaller(kDepth, depth - k);
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = first + k * k_stride + j * column_stride;
      float* const row = rows + j * kRow;
      if (k_stride == 1) {
        copy_numbers(stored, x, at, n, row);
      } else {
        for (std::int64_t i = 0; i < n; ++i) row[i] = read_number(stored, x, at + i * k_stride);
      }
    }
    pack_transposed(n, columns, rows, 1, kRow, to + k * to_stride, to_stride, to_columns);
  }
}

// Copies `depth` rows of `width` contiguous numbers. A row that is narrower than a vector is filled
// with +0.
inline void pack_converted_rows(Factor stored, std::int64_t depth, std::int64_t width,
                                const float* x, std::int64_t first, std::int64_t row_stride,
                                float* to, std::int64_t to_stride) {
  if (width < kWidth) {
    for (std::int64_t k = 0; k < depth; ++k, first += row_stride, to += to_stride)
      for (std::int64_t j = 0; j < kWidth; ++j)
        to[j] = j < width ? read_number(stored, x, first + j) : 0.0f;
    return;
  }
  // The second vector ends where the row ends, so it may overlap the first.
  const std::int64_t second = width - kWidth;
  with_vectors(stored, x, [=](auto at) mutable {
    for (std::int64_t k = 0; k < depth; ++k, first += row_stride, to += to_stride) {
      store(to, at(first));
      if (second > 0) store(to + second, at(first + second));
    }
  });
}

// --- Copies.

// Copies columns of B: the k are copied_panel_stride() floats apart. A panel that is narrower than
// a vector is filled with +0.
inline void pack_panel_at(const GemmShape& s, const Span& k, const Span& columns, const float* b,
                          float* out) {
  const std::int64_t width = columns.size(), stride = copied_panel_stride(width);
  const std::int64_t first_number = k.begin * s.b_row + columns.begin * s.b_col;
  if (s.b_stored != Factor::kF32) {
    if (s.b_col == 1)
      return pack_converted_rows(s.b_stored, k.size(), width, b, first_number, s.b_row, out,
                                 stride);
    return pack_converted(s.b_stored, k.size(), width, b, first_number, s.b_row, s.b_col, out,
                          stride, larger(width, kWidth));
  }
  const float* from = b + first_number;
  if (s.b_col != 1) {
    return pack_transposed(k.size(), width, from, s.b_row, s.b_col, out, stride,
                           larger(width, kWidth));
  }
  const Part first(width);
  for (std::int64_t i = 0; i < k.size(); ++i, from += s.b_row, out += stride) {
    store(out, first.load(from));
    if (width > kWidth) store(out + width - kWidth, load(from + width - kWidth));
  }
}

// pack_tile_at() for an A that is not read as it is stored.
inline void pack_converted_tile(const GemmShape& s, ASide side, const Span& k, const Span& rows,
                                std::int64_t row_stride, const float* a, float* out) {
  const std::int64_t first = rows.begin * s.a_row + k.begin * s.a_col;
  if (side == ASide::kRows) {
    for (std::int64_t i = 0; i < rows.size(); ++i)
      copy_numbers(s.a_stored, a, first + i * s.a_row, k.size(), out + i * row_stride);
    return;
  }
  if (s.a_row != 1)
    return pack_converted(s.a_stored, k.size(), rows.size(), a, first, s.a_col, s.a_row, out,
                          kTileRows, rows.size());
  // Whole vectors are read as long as they lie within the operand, and written as long as the next
  // k is written later.
  static_assert(kTileRows <= kWidth);
  const std::int64_t end = (s.k - 1) * s.a_col + s.m - kWidth;
  const std::int64_t whole = first > end ? 0 : smaller(k.size() - 1, (end - first) / s.a_col + 1);
  with_vectors(s.a_stored, a, [=](auto at) {
    for (std::int64_t i = 0; i < whole; ++i) store(out + i * kTileRows, at(first + i * s.a_col));
  });
  for (std::int64_t i = whole; i < k.size(); ++i)
    copy_numbers(s.a_stored, a, first + i * s.a_col, rows.size(), out + i * kTileRows);
}

// Copies rows of A. By rows: the rows are row_stride floats apart. By columns: each k has kTileRows
// floats.
inline void pack_tile_at(const GemmShape& s, ASide side, const Span& k, const Span& rows,
                         std::int64_t row_stride, const float* a, float* out) {
  if (s.a_stored != Factor::kF32) return pack_converted_tile(s, side, k, rows, row_stride, a, out);
  const float* from = a + rows.begin * s.a_row + k.begin * s.a_col;
  if (side == ASide::kRows) {
    for (std::int64_t i = 0; i < rows.size(); ++i) {
      copy_floats(out + i * row_stride, from + i * s.a_row, k.size());
    }
    return;
  }
  if (s.a_row != 1) {
    return pack_transposed(k.size(), rows.size(), from, s.a_col, s.a_row, out, kTileRows,
                           rows.size());
  }
  // If kTileRows < kWidth, a store of a whole vector writes too many floats, and the next store
  // overwrites them.
  const Part row(rows.size());
  const std::int64_t last = k.size() - 1;
  for (std::int64_t i = 0; i < last; ++i) store(out + i * kTileRows, row.load(from + i * s.a_col));
  row.store(out + last * kTileRows, row.load(from + last * s.a_col));
}

// Copied slices whose words are fp32 numbers.
struct WholeNumbers {
  // The number of k of a part in which a slice is copied; the last part may have fewer.
  static constexpr std::int64_t kPart = kLineFloats;
  // The words of one lane of a slice.
  static std::int64_t words(std::int64_t depth) { return depth; }
  static std::int64_t row_stride(std::int64_t depth) { return copied_row_stride(depth); }
  // Copies the k of `part`, which lies in `chunk`, to the slice of a tile that begins at `slice`.
  static void pack_tile(const GemmShape& s, ASide side, const Span& chunk, const Span& part,
                        const Span& rows, std::int64_t stride, const float* a, float* slice) {
    const std::int64_t skipped = part.begin - chunk.begin;
    pack_tile_at(s, side, part, rows, stride, a,
                 slice + (side == ASide::kRows ? skipped : skipped * stride));
  }
  static void pack_panel(const GemmShape& s, const Span& chunk, const Span& part,
                         const Span& columns, const float* b, float* slice) {
    const std::int64_t skipped = part.begin - chunk.begin;
    pack_panel_at(s, part, columns, b, slice + skipped * copied_panel_stride(columns.size()));
  }
  static void run_tile(ASide side, std::int64_t rows, GemmTile& t, const Fetch& fetch) {
    run_gemm_tile(side, rows, t, fetch);
  }
};

// Returns a Fetch of `rows` rows of `count` numbers that are `stride` numbers apart, from number
// `first` of an operand on.
inline Fetch fetch_block(Factor stored, const float* x, std::int64_t first, std::int64_t rows,
                         std::int64_t count, std::int64_t stride) {
  const std::int64_t bytes = stored == Factor::kBf16 ? 2 : 4;
  return {reinterpret_cast<const char*>(number_at(stored, x, first)), count * bytes, stride * bytes,
          rows};
}

}  // namespace
}  // namespace es::gpu
