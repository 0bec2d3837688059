#include "gpu/canonical/scalar/scalar.h"
#include "gpu/canonical/scalar_math.h"

namespace es::gpu::scalar {

void embedding_fwd(std::int64_t count, std::int64_t c, const float* table, const std::int32_t* ids,
                   float* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < c; ++j) y[i * c + j] = table[ids[i] * c + j];
  }
}

std::size_t embedding_bwd_workspace_floats(std::int64_t count, std::int64_t rows) {
  return static_cast<std::size_t>(count + rows);
}

// Sorts the positions by row. Those of row r are [ends[r-1], ends[r]) of the part of ws that
// follows `ends`. Counting sort keeps them in ascending order within a row, which the order of
// summation requires.
void embedding_sort(std::int64_t count, std::int64_t rows, const std::int32_t* ids, float* ws) {
  // [rows]; during the sort, the next free place of each row
  auto* ends = reinterpret_cast<std::int32_t*>(ws);
  std::int32_t* order = ends + rows;  // [count]
  for (std::int64_t r = 0; r < rows; ++r) ends[r] = 0;
  for (std::int64_t i = 0; i < count; ++i) ++ends[ids[i]];
  for (std::int64_t r = 0, first = 0; r < rows; ++r) {
    first += ends[r];
    ends[r] = static_cast<std::int32_t>(first - ends[r]);
  }
  for (std::int64_t i = 0; i < count; ++i) order[ends[ids[i]]++] = static_cast<std::int32_t>(i);
}

void embedding_bwd(std::int64_t c, std::int64_t rows, std::int64_t row_begin, std::int64_t row_end,
                   std::int64_t col_begin, std::int64_t col_end, const float* dy, const float* ws,
                   const float* before, float* dtable) {
  const auto* ends = reinterpret_cast<const std::int32_t*>(ws);
  const std::int32_t* order = ends + rows;
  for (std::int64_t r = row_begin; r < row_end; ++r) {
    const std::int64_t begin = r == 0 ? 0 : ends[r - 1], end = ends[r];
    for (std::int64_t j = col_begin; j < col_end; ++j) {
      float total = 0.0f;
      for (std::int64_t chunk = begin; chunk < end; chunk += kDotChunk) {
        float sum = 0.0f;
        for (std::int64_t i = chunk; i < smaller(chunk + kDotChunk, end); ++i) {
          sum = sum + dy[order[i] * c + j];
        }
        // The chunks have 512 rows as in DOT. The first chunk result is not added to +0: it is a
        // sum that began with +0, so it is never -0, and the addition would change nothing.
        total = chunk == begin ? sum : total + sum;
      }
      dtable[r * c + j] = before == nullptr ? total : before[r * c + j] + total;
    }
  }
}

}  // namespace es::gpu::scalar
