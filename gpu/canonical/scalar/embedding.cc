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

void embedding_bwd(std::int64_t count, std::int64_t c, std::int64_t rows, const std::int32_t* ids,
                   const float* dy, float* dtable, float* ws) {
  auto* seen = reinterpret_cast<std::int32_t*>(ws);          // [rows] positions so far
  auto* order = reinterpret_cast<std::int32_t*>(ws) + rows;  // [count] positions, sorted by row
  for (std::int64_t r = 0; r < rows; ++r) seen[r] = 0;
  for (std::int64_t i = 0; i < count; ++i) ++seen[ids[i]];
  for (std::int64_t r = 0, first = 0; r < rows; ++r) {
    first += seen[r];
    seen[r] = static_cast<std::int32_t>(first - seen[r]);
  }
  for (std::int64_t i = 0; i < count; ++i) order[seen[ids[i]]++] = static_cast<std::int32_t>(i);
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t begin = r == 0 ? 0 : seen[r - 1], end = seen[r];
    for (std::int64_t j = 0; j < c; ++j) {
      float total = 0.0f;
      for (std::int64_t chunk = begin; chunk < end; chunk += kDotChunk) {
        float sum = 0.0f;
        for (std::int64_t i = chunk; i < smaller(chunk + kDotChunk, end); ++i) {
          sum = sum + dy[order[i] * c + j];
        }
        total = chunk == begin ? sum : total + sum;
      }
      dtable[r * c + j] = total;
    }
  }
}

}  // namespace es::gpu::scalar
