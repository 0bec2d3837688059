#pragma once
// Embedding tables. Vectors run over columns, and a thread has rows or columns of the table of its
// own, so the order of a sum does not depend on the threads.
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

constexpr int kEmbeddingVecs = 4;  // vectors of columns that advance together

inline void embedding_fwd(std::int64_t count, std::int64_t c, const float* table,
                          const std::int32_t* ids, float* y) {
  for (std::int64_t i = 0; i < count; ++i) copy_floats(y + i * c, table + ids[i] * c, c);
}

inline std::size_t embedding_bwd_workspace_floats(std::int64_t count, std::int64_t rows) {
  return static_cast<std::size_t>(count + rows);
}

// Stable counting sort: the positions of row r are order[ends[r-1] .. ends[r]) in ascending order,
// where `ends` is the first part of ws and `order` the second.
inline void embedding_sort(std::int64_t count, std::int64_t rows, const std::int32_t* ids,
                           float* ws) {
  auto* ends = reinterpret_cast<std::int32_t*>(ws);
  std::int32_t* order = ends + rows;
  for (std::int64_t r = 0; r < rows; ++r) ends[r] = 0;
  for (std::int64_t i = 0; i < count; ++i) ++ends[ids[i]];
  for (std::int32_t r = 0, first = 0; r < rows; ++r) {
    const std::int32_t size = ends[r];
    ends[r] = first;
    first += size;
  }
  for (std::int64_t i = 0; i < count; ++i) order[ends[ids[i]]++] = static_cast<std::int32_t>(i);
}

// out[c] = the sum of `count` >= 1 rows of dy, which are `stride` floats apart, in chunks of 512;
// added to before[c] if `before` is not nullptr.
inline void sum_positions(std::int64_t count, std::int64_t stride, std::int64_t cols,
                          const std::int32_t* order, const float* dy, const float* before,
                          float* out) {
  for_columns<kEmbeddingVecs>(cols, [&](std::int64_t j, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    Vec total[kVecs];
    for (Vec& v : total) v = zero();
    for (std::int64_t chunk = 0; chunk < count; chunk += kDotChunk) {
      Vec sum[kVecs];
      for (int v = 0; v < kVecs; ++v) sum[v] = zero();
      for (std::int64_t i = chunk; i < smaller(chunk + kDotChunk, count); ++i) {
        const float* row = dy + order[i] * stride + j;
        for (int v = 0; v < kVecs; ++v) sum[v] = add(sum[v], at.load(row + v * kWidth));
      }
      // A sum that began with +0 is never -0, so the addition of the first chunk to +0 changes
      // nothing.
      for (int v = 0; v < kVecs; ++v) total[v] = add(total[v], sum[v]);
    }
    for (int v = 0; v < kVecs; ++v) {
      const std::int64_t to = j + v * kWidth;
      at.store(out + to, before == nullptr ? total[v] : add(at.load(before + to), total[v]));
    }
  });
}

inline void embedding_bwd(std::int64_t c, std::int64_t rows, std::int64_t row_begin,
                          std::int64_t row_end, std::int64_t col_begin, std::int64_t col_end,
                          const float* dy, const float* ws, const float* before, float* dtable) {
  const auto* ends = reinterpret_cast<const std::int32_t*>(ws);
  const std::int32_t* order = ends + rows;
  const std::int64_t cols = col_end - col_begin;
  std::int64_t begin = row_begin == 0 ? 0 : ends[row_begin - 1];
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    float* out = dtable + r * c + col_begin;
    const float* left = before == nullptr ? nullptr : before + r * c + col_begin;
    const std::int64_t end = ends[r];
    if (begin != end) {
      sum_positions(end - begin, c, cols, order + begin, dy + col_begin, left, out);
    } else if (left == nullptr) {
      zero_floats(out, cols);
    } else {
      // The addition of +0 turns -0 into +0.
      for_vectors(cols, [=](std::int64_t i, auto at) {
        at.store(out + i, add(at.load(left + i), zero()));
      });
    }
    begin = end;
  }
}

}  // namespace
}  // namespace es::gpu
