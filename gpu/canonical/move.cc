#include "gpu/canonical/move.h"

#include <xmmintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace es::gpu {
namespace {

constexpr std::size_t kLast = kMoveRank - 1;
constexpr std::int64_t kShortRun = 16;  // words; below this a loop is faster than a call of memcpy
constexpr std::int64_t kTile = 16;  // side of a block of a transposition in floats: one cache line
// Rows at multiples of this distance in floats share their sets of the first-level cache.
constexpr std::int64_t kAliasFloats = 1024;

// The two innermost dimensions of a copy.
struct Plane {
  std::int64_t rows, columns;
  std::int64_t source_row, source_column;
  std::int64_t target_row, target_column;
};

Plane plane_of(const BlockCopy& c) {
  return {c.size[kLast - 1],          c.size[kLast],
          c.source_stride[kLast - 1], c.source_stride[kLast],
          c.target_stride[kLast - 1], c.target_stride[kLast]};
}

void copy_run(std::int64_t count, const float* source, float* target) {
  if (count >= kShortRun) {
    std::memcpy(target, source, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    for (std::int64_t i = 0; i < count; ++i) target[i] = source[i];
  }
}

void copy_strided_run(std::int64_t count, const float* source, std::int64_t source_step,
                      float* target, std::int64_t target_step) {
  for (std::int64_t i = 0; i < count; ++i) target[i * target_step] = source[i * source_step];
}

// Transposes four rows of four words.
void transpose_four(const float* source, std::int64_t source_row, float* target,
                    std::int64_t target_column) {
  __m128 a = _mm_loadu_ps(source), b = _mm_loadu_ps(source + source_row);
  __m128 c = _mm_loadu_ps(source + 2 * source_row), d = _mm_loadu_ps(source + 3 * source_row);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(target, a);
  _mm_storeu_ps(target + target_column, b);
  _mm_storeu_ps(target + 2 * target_column, c);
  _mm_storeu_ps(target + 3 * target_column, d);
}

// Transposes a tile.
void transpose_tile(const float* source, std::int64_t source_row, float* target,
                    std::int64_t target_column) {
  for (std::int64_t r = 0; r < kTile; r += 4)
    for (std::int64_t c = 0; c < kTile; c += 4)
      transpose_four(source + r * source_row + c, source_row, target + c * target_column + r,
                     target_column);
}

// The same for a target whose columns share cache sets: each of its cache lines is written at once.
void transpose_tile_by_lines(const float* source, std::int64_t source_row, float* target,
                             std::int64_t target_column) {
  alignas(64) float lines[kTile * kTile];
  transpose_tile(source, source_row, lines, kTile);
  for (std::int64_t c = 0; c < kTile; ++c)
    std::memcpy(target + c * target_column, lines + c * kTile, kTile * sizeof(float));
}

// Columns of the source are contiguous, and rows of the target. The copy works in tiles, so that
// every cache line that it touches is used completely. Of the last rows and columns, those that
// fill no tile are copied one by one.
void copy_transposed(const Plane& p, const float* source, float* target) {
  const std::int64_t rows = p.rows / kTile * kTile, columns = p.columns / kTile * kTile;
  const auto tile = [&](auto transpose, std::int64_t r, std::int64_t c) {
    transpose(source + r * p.source_row + c, p.source_row, target + r + c * p.target_column,
              p.target_column);
  };
  if (p.target_column % kAliasFloats == 0) {
    for (std::int64_t r = 0; r < rows; r += kTile)
      for (std::int64_t c = 0; c < columns; c += kTile) tile(transpose_tile_by_lines, r, c);
  } else {
    for (std::int64_t c = 0; c < columns; c += kTile)
      for (std::int64_t r = 0; r < rows; r += kTile) tile(transpose_tile, r, c);
  }
  for (std::int64_t c = 0; c < columns; ++c)
    copy_strided_run(p.rows - rows, source + rows * p.source_row + c, p.source_row,
                     target + rows + c * p.target_column, 1);
  for (std::int64_t r0 = 0; r0 < p.rows; r0 += kTile)
    for (std::int64_t c = columns; c < p.columns; ++c)
      copy_strided_run(std::min(kTile, p.rows - r0), source + r0 * p.source_row + c, p.source_row,
                       target + r0 + c * p.target_column, 1);
}

// The columns of the source have another distance than 1, or the rows of the target.
void copy_scattered(const Plane& p, const float* source, float* target) {
  for (std::int64_t r0 = 0; r0 < p.rows; r0 += kTile) {
    const std::int64_t rows = std::min(kTile, p.rows - r0);
    for (std::int64_t c = 0; c < p.columns; ++c)
      copy_strided_run(rows, source + r0 * p.source_row + c * p.source_column, p.source_row,
                       target + r0 * p.target_row + c * p.target_column, p.target_row);
  }
}

void copy_plane(const Plane& p, const float* source, float* target) {
  if (p.source_column == 1 && p.target_column == 1) {
    for (std::int64_t r = 0; r < p.rows; ++r)
      copy_run(p.columns, source + r * p.source_row, target + r * p.target_row);
  } else if (p.source_column == 1 && p.target_row == 1) {
    copy_transposed(p, source, target);
  } else if (p.source_row == 1 && p.target_column == 1) {
    // The rows of one array are the columns of the other.
    copy_transposed({.rows = p.columns,
                     .columns = p.rows,
                     .source_row = p.source_column,
                     .source_column = 1,
                     .target_row = 1,
                     .target_column = p.target_row},
                    source, target);
  } else if (p.source_row == 1 || p.target_row == 1) {
    copy_scattered(p, source, target);
  } else {
    for (std::int64_t r = 0; r < p.rows; ++r)
      copy_strided_run(p.columns, source + r * p.source_row, p.source_column,
                       target + r * p.target_row, p.target_column);
  }
}

// Writes target[0], target[2], ... from a, and target[1], target[3], ... from b.
void interleave(std::int64_t pairs, const float* __restrict a, const float* __restrict b,
                float* __restrict target) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    target[2 * i] = a[i];
    target[2 * i + 1] = b[i];
  }
}

void deinterleave(std::int64_t pairs, const float* __restrict source, float* __restrict a,
                  float* __restrict b) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    a[i] = source[2 * i];
    b[i] = source[2 * i + 1];
  }
}

// Calls plane(source offset, target offset) for every plane of the copy. `source` and `target` are
// the offsets that the dimensions before kDimension have given.
template <std::size_t kDimension = 0, class Visit>
void for_planes(const BlockCopy& c, Visit&& plane, std::int64_t source = 0,
                std::int64_t target = 0) {
  if constexpr (kDimension == kLast - 1) {
    plane(source, target);
  } else {
    for (std::int64_t i = 0; i < c.size[kDimension]; ++i)
      for_planes<kDimension + 1>(c, plane, source + i * c.source_stride[kDimension],
                                 target + i * c.target_stride[kDimension]);
  }
}

// Recognises two copies that together fill or read every word of a run, one the even and the other
// the odd words. Both are then done in one pass.
enum class Pair { kNone, kInterleave, kDeinterleave };

Pair pair_of(const BlockCopy& a, const BlockCopy& b) {
  if (a.size != b.size || a.source_stride != b.source_stride || a.target_stride != b.target_stride)
    return Pair::kNone;
  const std::int64_t source_step = a.source_stride[kLast], target_step = a.target_stride[kLast];
  if (a.target == b.target && target_step == 2 && source_step == 1 &&
      b.target_offset == a.target_offset + 1)
    return Pair::kInterleave;
  if (a.source == b.source && source_step == 2 && target_step == 1 &&
      b.source_offset == a.source_offset + 1)
    return Pair::kDeinterleave;
  return Pair::kNone;
}

// Returns the share of one thread: a range of the widest dimension. The innermost dimension is
// divided only if all others have size 1, because its runs are contiguous.
BlockCopy part_of(BlockCopy copy, std::int64_t part, std::int64_t parts) {
  if (parts == 1) return copy;
  std::size_t widest = kLast - 1;
  for (std::size_t d = 0; d < kLast; ++d)
    if (copy.size[d] > copy.size[widest]) widest = d;
  if (copy.size[widest] == 1) widest = kLast;
  const std::int64_t begin = copy.size[widest] * part / parts;
  const std::int64_t end = copy.size[widest] * (part + 1) / parts;
  copy.size[widest] = end - begin;
  copy.source_offset += begin * copy.source_stride[widest];
  copy.target_offset += begin * copy.target_stride[widest];
  return copy;
}

void run_pair(Pair pair, const BlockCopy& a, const BlockCopy& b, std::span<float* const> sources,
              std::span<float* const> targets) {
  const Plane p = plane_of(a);
  const float* source_a = sources[static_cast<std::size_t>(a.source)] + a.source_offset;
  const float* source_b = sources[static_cast<std::size_t>(b.source)] + b.source_offset;
  float* target_a = targets[static_cast<std::size_t>(a.target)] + a.target_offset;
  float* target_b = targets[static_cast<std::size_t>(b.target)] + b.target_offset;
  for_planes(a, [&](std::int64_t s, std::int64_t t) {
    for (std::int64_t r = 0; r < p.rows; ++r) {
      const std::int64_t sr = s + r * p.source_row, tr = t + r * p.target_row;
      if (pair == Pair::kInterleave)
        interleave(p.columns, source_a + sr, source_b + sr, target_a + tr);
      else
        deinterleave(p.columns, source_a + sr, target_a + tr, target_b + tr);
    }
  });
}

bool one_run(const BlockCopy& c, std::size_t outer, std::size_t inner) {
  return c.source_stride[outer] == c.source_stride[inner] * c.size[inner] &&
         c.target_stride[outer] == c.target_stride[inner] * c.size[inner];
}

}  // namespace

std::int64_t BlockCopy::count() const {
  std::int64_t product = 1;
  for (const std::int64_t n : size) product *= n;
  return product;
}

Move transposed(const Move& move) {
  Move back = move;
  for (BlockCopy& c : back) {
    std::swap(c.source, c.target);
    std::swap(c.source_offset, c.target_offset);
    std::swap(c.source_stride, c.target_stride);
  }
  return back;
}

BlockCopy simplified(const BlockCopy& copy) {
  BlockCopy out = copy;
  out.size.fill(1);
  out.source_stride.fill(0);
  out.target_stride.fill(0);
  std::size_t to = kMoveRank;  // the dimension that was written last
  for (std::size_t d = kMoveRank; d-- > 0;) {
    if (copy.size[d] == 1) continue;
    // Two dimensions become one if the outer one continues in memory exactly where the inner one
    // ends, in both arrays. The innermost runs then become longer.
    BlockCopy probe = out;
    if (to < kMoveRank && to > 0) {
      probe.size[to - 1] = copy.size[d];
      probe.source_stride[to - 1] = copy.source_stride[d];
      probe.target_stride[to - 1] = copy.target_stride[d];
      if (one_run(probe, to - 1, to)) {
        out.size[to] *= copy.size[d];
        continue;
      }
    }
    --to;
    out.size[to] = copy.size[d];
    out.source_stride[to] = copy.source_stride[d];
    out.target_stride[to] = copy.target_stride[d];
  }
  return out;
}

std::int64_t written_words(const Move& move, std::int32_t target) {
  std::int64_t words = 0;
  for (const BlockCopy& c : move)
    if (c.target == target) words += c.count();
  return words;
}

void run_move(const Move& move, std::span<float* const> sources, std::span<float* const> targets,
              std::int64_t part, std::int64_t parts) {
  for (std::size_t i = 0; i < move.size(); ++i) {
    const BlockCopy copy = part_of(move[i], part, parts);
    // The pair is recognised before the copies are divided among threads. Since both have equal
    // sizes, part_of() divides them at the same places.
    const Pair pair = i + 1 < move.size() ? pair_of(move[i], move[i + 1]) : Pair::kNone;
    if (pair != Pair::kNone) {
      run_pair(pair, copy, part_of(move[++i], part, parts), sources, targets);
      continue;
    }
    const float* source = sources[static_cast<std::size_t>(copy.source)] + copy.source_offset;
    float* target = targets[static_cast<std::size_t>(copy.target)] + copy.target_offset;
    const Plane plane = plane_of(copy);
    for_planes(copy,
               [&](std::int64_t s, std::int64_t t) { copy_plane(plane, source + s, target + t); });
  }
}

}  // namespace es::gpu
