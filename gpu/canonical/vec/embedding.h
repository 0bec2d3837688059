#pragma once
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

// Stable counting sort: the positions of row r are order[ends[r-1] .. ends[r]), ascending.
inline void sort_by_row(std::int64_t count, std::int64_t rows, const std::int32_t* ids,
                        std::int32_t* ends, std::int32_t* order) {
  for (std::int64_t r = 0; r < rows; ++r) ends[r] = 0;
  for (std::int64_t i = 0; i < count; ++i) ++ends[ids[i]];
  for (std::int32_t r = 0, first = 0; r < rows; ++r) {
    const std::int32_t size = ends[r];
    ends[r] = first;
    first += size;
  }
  for (std::int64_t i = 0; i < count; ++i) order[ends[ids[i]]++] = static_cast<std::int32_t>(i);
}

// out[c] = the sum of `count` >= 1 rows of dy, in chunks of 512.
inline void sum_positions(std::int64_t count, std::int64_t c, const std::int32_t* order,
                          const float* dy, float* out) {
  for_columns<kEmbeddingVecs>(c, [&](std::int64_t j, auto at, auto vecs) {
    constexpr int kVecs = decltype(vecs)::value;
    for (std::int64_t chunk = 0; chunk < count; chunk += kDotChunk) {
      Vec sum[kVecs];
      for (int v = 0; v < kVecs; ++v) sum[v] = zero();
      for (std::int64_t i = chunk; i < smaller(chunk + kDotChunk, count); ++i) {
        const float* row = dy + order[i] * c + j;
        for (int v = 0; v < kVecs; ++v) sum[v] = add(sum[v], at.load(row + v * kWidth));
      }
      for (int v = 0; v < kVecs; ++v) {
        float* to = out + j + v * kWidth;
        at.store(to, chunk == 0 ? sum[v] : add(at.load(to), sum[v]));
      }
    }
  });
}

inline void embedding_bwd(std::int64_t count, std::int64_t c, std::int64_t rows,
                          const std::int32_t* ids, const float* dy, float* dtable, float* ws) {
  auto* ends = reinterpret_cast<std::int32_t*>(ws);
  std::int32_t* order = ends + rows;
  sort_by_row(count, rows, ids, ends, order);
  std::int64_t begin = 0;
  for (std::int64_t r = 0; r < rows; ++r, dtable += c) {
    const std::int64_t end = ends[r];
    if (begin == end) {
      zero_floats(dtable, c);
    } else {
      sum_positions(end - begin, c, order + begin, dy, dtable);
    }
    begin = end;
  }
}

}  // namespace
}  // namespace es::gpu
