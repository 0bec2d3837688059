// Embedding. The backward pass sorts the positions by (id, position). The place of a position is
// the number of positions before it. Within its own tile this number is counted by comparing with
// all others; in the other tiles, which are sorted by then, it is found by a binary search. No
// atomics are used, so no order has to be fixed afterwards.
#include "gpu/canonical/order.h"
#include "gpu/cuda/kernels/cells.h"
#include "gpu/cuda/kernels/topics.h"
#include "gpu/cuda/kernels/walk.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// --- Forward pass.
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

// --- Backward pass. embedding_bwd() at the end runs the phases: SortTiles, MergeTiles, FindEnds,
// SumRareRows, SumFrequentRows.
//
// Positions and their ids in the same order.
struct Positions {
  std::int32_t *position, *id;  // [count]
};
// The positions sorted by id, and the end of the positions of each row.
struct SortedPositions {
  std::int32_t *position, *id;
  std::int32_t* end;  // [rows]
  ES_HD std::int32_t begin(std::int64_t row) const { return row == 0 ? 0 : end[row - 1]; }
};
// The workspace.
struct Sorting {
  Positions tiles;  // each tile is sorted
  SortedPositions all;
};

std::size_t embedding_bwd_workspace_floats(std::int64_t count, std::int64_t rows) {
  return static_cast<std::size_t>(4 * count + rows);
}
Sorting sorting(std::int64_t count, float* ws) {
  auto* w = reinterpret_cast<std::int32_t*>(ws);
  return {{w, w + count}, {w + 2 * count, w + 3 * count, w + 4 * count}};
}

// Returns how many of n ascending numbers are less than `bound`.
ES_HD inline std::int32_t count_below(const std::int32_t* ascending, std::int32_t n,
                                      std::int32_t bound) {
  std::int32_t low = 0, high = n;
  while (low < high) {
    const std::int32_t middle = low + (high - low) / 2;
    const bool below = ascending[middle] < bound;
    low = below ? middle + 1 : low;
    high = below ? high : middle;
  }
  return low;
}

// A block sorts one tile.
struct SortTiles {
  static constexpr unsigned kThreads = 256;
  static constexpr std::int32_t kTile = 1024;
  static constexpr int kValues = kTile / kThreads;  // of one thread
  struct Shared {
    std::int32_t id[kTile];
  };
  std::int32_t count;
  const std::int32_t* ids;
  Positions to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const auto begin = static_cast<std::int32_t>(block.x()) * kTile;
    const auto thread = static_cast<std::int32_t>(block.thread());
    const std::int32_t size = count - begin < kTile ? count - begin : kTile;
    for (std::int32_t i = thread; i < size; i += kThreads) shared.id[i] = ids[begin + i];
    block.sync();
    std::int32_t at[kValues], id[kValues], place[kValues] = {};
    ES_UNROLL
    for (int v = 0; v < kValues; ++v) {
      at[v] = thread + v * static_cast<std::int32_t>(kThreads);
      id[v] = at[v] < size ? shared.id[at[v]] : 0;
    }
    // Among equal ids, earlier positions come first.
    for (std::int32_t i = 0; i < size; ++i) {
      ES_UNROLL
      for (int v = 0; v < kValues; ++v) place[v] += shared.id[i] < id[v] + (i < at[v] ? 1 : 0);
    }
    ES_UNROLL
    for (int v = 0; v < kValues; ++v) {
      if (at[v] >= size) continue;
      to.position[begin + place[v]] = begin + at[v];
      to.id[begin + place[v]] = id[v];
    }
  }
};

// A thread finds the place of one position of a sorted tile among all positions.
struct MergeTiles {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  std::int32_t count;
  Positions tiles;
  SortedPositions to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    constexpr std::int32_t kTile = SortTiles::kTile;
    const auto mine = static_cast<std::int32_t>(thread_in_grid(*this, block));
    if (mine >= count) return;
    const std::int32_t id = tiles.id[mine], own = mine / kTile * kTile;
    std::int32_t place = mine - own;
    for (std::int32_t tile = 0; tile < count; tile += kTile) {
      if (tile == own) continue;
      const std::int32_t size = count - tile < kTile ? count - tile : kTile;
      // In earlier tiles equal ids come first; in later tiles they come after. This keeps the order
      // of positions.
      place += count_below(tiles.id + tile, size, tile < own ? id + 1 : id);
    }
    to.position[place] = tiles.position[mine];
    to.id[place] = id;
  }
};

// end[row] = the number of sorted ids that are at most `row`.
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
    sorted.end[row] = count_below(sorted.id, count, static_cast<std::int32_t>(row) + 1);
  }
};

// Returns the chain of one chunk: the sorted positions [begin, end), at most 512.
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

// Where the sums go. `before` is added to from the left; nullptr: nothing is.
struct SumTarget {
  const float* before;
  float* dtable;

  template <int kWidth>
  ES_HD void store(std::int64_t at, Pack<kWidth> sum) const {
    if (before != nullptr) {
      const Pack<kWidth> left = load_pack<kWidth>(before + at);
      ES_UNROLL
      for (int j = 0; j < kWidth; ++j) sum.v[j] = left.v[j] + sum.v[j];
    }
    store_pack(dtable + at, sum);
  }
};

// Sums the rows that have at most one chunk of positions.
struct SumRareRows {
  std::int64_t c;
  SortedPositions sorted;
  const float* dy;
  SumTarget to;

  template <int kWidth>
  ES_HD void run(std::uint32_t row, std::uint32_t channel) const {
    const std::int32_t begin = sorted.begin(row), end = sorted.end[row];
    if (end - begin > kDotChunk) return;
    to.store(static_cast<std::int64_t>(row) * c + channel,
             chunk_sum<kWidth>(sorted.position, begin, end, c, dy + channel));
  }
};

// Sums the rows with more positions. The positions of such a row include a sorted position that is
// a multiple of 512. The block of the first such multiple computes 32 columns of the row; each run
// of 32 threads sums a chunk.
struct SumFrequentRows {
  static constexpr unsigned kThreads = 512;
  static constexpr std::int32_t kChunks = kThreads / 32;
  struct Shared {
    float sum[kChunks][32];
  };
  std::int64_t c;
  SortedPositions sorted;
  const float* dy;
  SumTarget to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    constexpr auto kChunk = static_cast<std::int32_t>(kDotChunk);
    const std::int32_t at = static_cast<std::int32_t>(block.x()) * kChunk, row = sorted.id[at];
    const std::int32_t begin = sorted.begin(row), end = sorted.end[row];
    // Only one block of each column passes this test for a row. All threads of a block decide
    // alike, so the barriers below are safe.
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
      // The next round overwrites the sums of this round.
      block.sync();
    }
    if (mine == 0 && col < c) to.store(row * c + col, Pack<1>{{total}});
  }
};

void embedding_bwd(Stream stream, std::int64_t count, std::int64_t c, std::int64_t rows,
                   const std::int32_t* ids, const float* dy, const float* before, float* dtable,
                   float* ws) {
  const Sorting w = sorting(count, ws);
  const SortedPositions sorted = w.all;
  const SumTarget to{before, dtable};
  const auto n = static_cast<std::int32_t>(count);
  launch(stream, {.x = ceil_div(count, SortTiles::kTile)}, SortTiles{n, ids, w.tiles});
  launch(stream, {.x = blocks_for<MergeTiles>(count)}, MergeTiles{n, w.tiles, sorted});
  launch(stream, {.x = blocks_for<FindEnds>(rows)}, FindEnds{rows, n, sorted});
  for_cells(stream, rows, c, SumRareRows{c, sorted, dy, to}, dy, before, dtable);
  if (count > kDotChunk) {
    launch(stream, {.x = ceil_div(count, kDotChunk), .y = ceil_div(c, 32)},
           SumFrequentRows{c, sorted, dy, to});
  }
}

}  // namespace

void add_embedding(DeviceKernels& kernels) {
  kernels.embedding_fwd = embedding_fwd;
  kernels.embedding_bwd_workspace_floats = embedding_bwd_workspace_floats;
  kernels.embedding_bwd = embedding_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
