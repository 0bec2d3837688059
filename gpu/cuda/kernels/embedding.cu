// Embedding. Backwards, the positions are sorted by (id, position): the place of one is the number
// of those before it, counted by comparing with all (no atomics, so no order to fix; 10,000 ids are
// 10^8 comparisons, some microseconds).
#include "gpu/canonical/order.h"
#include "gpu/cuda/kernels/cells.h"
#include "gpu/cuda/kernels/topics.h"
#include "gpu/cuda/kernels/walk.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

struct EmbeddingForward {
  std::int64_t c;
  const float* table;
  const std::int32_t* ids;
  float* y;

  template <int kWidth>
  ES_HD void run(std::uint32_t position, std::uint32_t channel) const {
    store_pack(y + static_cast<std::int64_t>(position) * c + channel,
               load_pack<kWidth>(table + ids[position] * c + channel));
  }
};

void embedding_fwd(Stream stream, std::int64_t count, std::int64_t c, const float* table,
                   const std::int32_t* ids, float* y) {
  for_cells(stream, count, c, EmbeddingForward{c, table, ids, y}, table, y);
}

// The workspace: positions sorted by id, their ids, and where the positions of each row end.
struct SortedPositions {
  std::int32_t *position, *id;  // [count]
  std::int32_t* end;            // [rows]
  ES_HD std::int32_t begin(std::int64_t row) const { return row == 0 ? 0 : end[row - 1]; }
};

std::size_t embedding_bwd_workspace_floats(std::int64_t count, std::int64_t rows) {
  return static_cast<std::size_t>(2 * count + rows);
}
SortedPositions sorted_positions(std::int64_t count, float* ws) {
  auto* words = reinterpret_cast<std::int32_t*>(ws);
  return {words, words + count, words + 2 * count};
}

struct SortPositions {
  static constexpr unsigned kThreads = 64;
  static constexpr std::int32_t kTile = 1024;
  struct Shared {
    std::int32_t id[kTile];
  };
  std::int32_t count;
  const std::int32_t* ids;
  SortedPositions to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const auto mine = static_cast<std::int32_t>(thread_in_grid(*this, block));
    const std::int32_t id = mine < count ? ids[mine] : 0;
    std::int32_t place = 0;
    for (std::int32_t tile = 0; tile < count; tile += kTile) {
      const std::int32_t size = count - tile < kTile ? count - tile : kTile;
      for (auto i = static_cast<std::int32_t>(block.thread()); i < size; i += kThreads) {
        shared.id[i] = ids[tile + i];
      }
      block.sync();
      // Among equal ids those at earlier positions are before it.
      const std::int32_t earlier = mine < tile ? 0 : mine < tile + size ? mine - tile : size;
      for (std::int32_t i = 0; i < earlier; ++i) place += shared.id[i] <= id ? 1 : 0;
      for (std::int32_t i = earlier; i < size; ++i) place += shared.id[i] < id ? 1 : 0;
      block.sync();
    }
    if (mine >= count) return;
    to.position[place] = mine;
    to.id[place] = id;
  }
};

// end[row]: how many sorted ids are at most `row`.
struct FindEnds {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  std::int64_t rows;
  std::int32_t count;
  SortedPositions sorted;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t row = thread_in_grid(*this, block);
    if (row >= rows) return;
    std::int32_t low = 0, high = count;
    while (low < high) {
      const std::int32_t middle = low + (high - low) / 2;
      const bool before = sorted.id[middle] <= row;
      low = before ? middle + 1 : low;
      high = before ? high : middle;
    }
    sorted.end[row] = low;
  }
};

// The chain of one chunk: the sorted positions [begin, end), at most 512.
template <int kWidth>
ES_HD inline Pack<kWidth> chunk_sum(const std::int32_t* position, std::int32_t begin,
                                    std::int32_t end, std::int64_t c, const float* dy) {
  Pack<kWidth> sum = {};
  walk_run<8>(
      end - begin, [&](std::int64_t i) { return load_pack<kWidth>(dy + position[begin + i] * c); },
      [&](const Pack<kWidth>& row) {
        ES_UNROLL
        for (int j = 0; j < kWidth; ++j) sum.v[j] = sum.v[j] + row.v[j];
      });
  return sum;
}

// Rows whose positions are one chunk at most.
struct SumRareRows {
  std::int64_t c;
  SortedPositions sorted;
  const float* dy;
  float* dtable;

  template <int kWidth>
  ES_HD void run(std::uint32_t row, std::uint32_t channel) const {
    const std::int32_t begin = sorted.begin(row), end = sorted.end[row];
    if (end - begin > kDotChunk) return;
    store_pack(dtable + static_cast<std::int64_t>(row) * c + channel,
               chunk_sum<kWidth>(sorted.position, begin, end, c, dy + channel));
  }
};

// Rows with more positions. Such a row has a sorted position that is a multiple of 512; the block
// of the first of them does 32 of its columns, each run of 32 threads a chunk.
struct SumFrequentRows {
  static constexpr unsigned kThreads = 512;
  static constexpr std::int32_t kChunks = kThreads / 32;
  struct Shared {
    float sum[kChunks][32];
  };
  std::int64_t c;
  SortedPositions sorted;
  const float* dy;
  float* dtable;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    constexpr auto kChunk = static_cast<std::int32_t>(kDotChunk);
    const std::int32_t at = static_cast<std::int32_t>(block.x()) * kChunk, row = sorted.id[at];
    const std::int32_t begin = sorted.begin(row), end = sorted.end[row];
    if (end - begin <= kChunk || at - begin >= kChunk) return;
    const auto lane = block.thread() % 32, mine = block.thread() / 32;
    const std::int64_t col = static_cast<std::int64_t>(block.y()) * 32 + lane;
    float total = 0.0f;
    for (std::int32_t base = begin; base < end; base += kChunks * kChunk) {
      const std::int32_t first = base + static_cast<std::int32_t>(mine) * kChunk;
      if (first < end && col < c) {
        const std::int32_t last = end - first < kChunk ? end : first + kChunk;
        shared.sum[mine][lane] = chunk_sum<1>(sorted.position, first, last, c, dy + col).v[0];
      }
      block.sync();
      for (std::int32_t i = 0; mine == 0 && i < kChunks && base + i * kChunk < end; ++i) {
        const float sum = shared.sum[i][lane];
        total = base == begin && i == 0 ? sum : total + sum;
      }
      block.sync();
    }
    if (mine == 0 && col < c) dtable[row * c + col] = total;
  }
};

void embedding_bwd(Stream stream, std::int64_t count, std::int64_t c, std::int64_t rows,
                   const std::int32_t* ids, const float* dy, float* dtable, float* ws) {
  const SortedPositions sorted = sorted_positions(count, ws);
  const auto n = static_cast<std::int32_t>(count);
  launch(stream, {.x = blocks_for<SortPositions>(count)}, SortPositions{n, ids, sorted});
  launch(stream, {.x = blocks_for<FindEnds>(rows)}, FindEnds{rows, n, sorted});
  for_cells(stream, rows, c, SumRareRows{c, sorted, dy, dtable}, dy, dtable);
  if (count > kDotChunk) {
    launch(stream, {.x = ceil_div(count, kDotChunk), .y = ceil_div(c, 32)},
           SumFrequentRows{c, sorted, dy, dtable});
  }
}

}  // namespace

void add_embedding(DeviceKernels& kernels) {
  kernels.embedding_fwd = embedding_fwd;
  kernels.embedding_bwd_workspace_floats = embedding_bwd_workspace_floats;
  kernels.embedding_bwd = embedding_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
