#pragma once
// Kernels in which a run of 32 threads processes a row, or two rows by packs.
#include "gpu/cuda/kernels/sums.h"
#include "gpu/cuda/kernels/walk.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

constexpr unsigned kRowThreads = 256;  // of a block

// Returns the row of a thread. If it is beyond the last row, all 32 threads of the run return from
// the kernel together.
template <class Block>
ES_HD std::int64_t my_row(const Block& block) {
  return static_cast<std::int64_t>(block.x()) * (kRowThreads / 32) + block.thread() / 32;
}
inline std::int64_t blocks_of_rows(std::int64_t rows) {
  return ceil_div(rows, kRowThreads / 32);
}

// Returns the maximum by `max < x ? x : max` from -inf, in every thread of the run.
template <class Block>
ES_HD float row_max(const Block& block, std::int64_t n, const float* x) {
  float max = -kInfinity;
  for (std::int64_t i = block.thread() % 32; i < n; i += 32) max = max < x[i] ? x[i] : max;
  for (unsigned half = 16; half > 0; half /= 2) {
    const float other = block.down(max, half);
    max = max < other ? other : max;
  }
  return block.first(max);
}

// y[i] = f(i) for the row. f may read element i of an array that y overwrites, because a
// thread computes the value of an element before it stores it.
template <class Block, class Function>
ES_HD void write_row(const Block& block, std::int64_t n, float* y, Function f) {
  constexpr int kAtOnce = 4;
  for (std::int64_t i = block.thread() % 32; i < n; i += 32 * kAtOnce) {
    float v[kAtOnce] = {};
    ES_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      if (i + 32 * j < n) v[j] = f(i + 32 * j);
    }
    ES_UNROLL
    for (int j = 0; j < kAtOnce; ++j) {
      if (i + 32 * j < n) y[i + 32 * j] = v[j];
    }
  }
}

// The row of a thread in a kernel that moves kWidth neighbours at once. With packs of four 16
// threads process a row, and thread t of them has the lanes 4 t to 4 t + 3 of SUM64, so a load of a
// pack continues four chains. The 32 threads of a run call the same functions even if the second of
// their rows does not exist; its threads then compute the last row again.
template <int kWidth>
class RowPacks;

template <>
class RowPacks<1> {
 public:
  template <class Block>
  ES_HD RowPacks(const Block& block, std::int64_t rows) : row_(my_row(block)), rows_(rows) {}

  static std::int64_t blocks(std::int64_t rows) { return blocks_of_rows(rows); }
  // Returns whether the whole run of 32 threads has no row.
  ES_HD bool none() const { return row_ >= rows_; }
  ES_HD std::int64_t row() const { return row_; }

  // Returns SUM64 of n elements: add(load(i), 0, lane) returns the lane with element i added.
  template <class Block, class Load, class Add>
  ES_HD float sum(const Block& block, std::int64_t n, Load load, Add add) const {
    return run_sum64(block, n, [&](std::int64_t i, float lane) { return add(load(i), 0, lane); });
  }
  template <class Block>
  ES_HD float max(const Block& block, std::int64_t n, const float* x) const {
    return row_max(block, n, x);
  }
  // y[i] = f(i), as in write_row().
  template <class Block, class Function>
  ES_HD void write(const Block& block, std::int64_t n, float* y, Function f) const {
    write_row(block, n, y, [&](std::int64_t i) { return f(i).v[0]; });
  }
  // Stores one number for the row.
  template <class Block>
  ES_HD void put(const Block& block, float* y, float value) const {
    if (block.thread() % 32 == 0) y[row_] = value;
  }

 private:
  std::int64_t row_, rows_;
};

// REQUIRES: n % 4 == 0 and n <= kSumChunk, one chunk of SUM64; and aligned rows.
template <>
class RowPacks<4> {
  static constexpr int kAtOnce = 4;  // number of loads in flight

 public:
  template <class Block>
  ES_HD RowPacks(const Block& block, std::int64_t rows)
      : row_(2 * my_row(block) + block.thread() % 32 / 16), rows_(rows) {}

  static std::int64_t blocks(std::int64_t rows) { return blocks_of_rows(ceil_div(rows, 2)); }
  ES_HD bool none() const { return row_ - row_ % 2 >= rows_; }
  ES_HD std::int64_t row() const { return smaller(row_, rows_ - 1); }

  // load(i) reads what belongs to the elements [i, i + 4), and add(values, j, lane) adds i + j.
  template <class Block, class Load, class Add>
  ES_HD float sum(const Block& block, std::int64_t n, Load load, Add add) const {
    float lane[4] = {};
    walk(block, n, load, [&](const auto& values) {
      ES_UNROLL
      for (int j = 0; j < 4; ++j) lane[j] = add(values, j, lane[j]);
    });
    // Lanes that are 32, 16, 8 and 4 apart belong to threads that are 8, 4, 2 and 1 apart.
    for (unsigned half = 8; half > 0; half /= 2) {
      ES_UNROLL
      for (int j = 0; j < 4; ++j) lane[j] = lane[j] + block.down(lane[j], half);
    }
    return of_row(block, (lane[0] + lane[2]) + (lane[1] + lane[3]));
  }

  template <class Block>
  ES_HD float max(const Block& block, std::int64_t n, const float* x) const {
    float max = -kInfinity;
    walk(
        block, n, [&](std::int64_t i) { return load_pack<4>(x + i); },
        [&](const Pack<4>& values) {
          ES_UNROLL
          for (int j = 0; j < 4; ++j) max = max < values.v[j] ? values.v[j] : max;
        });
    for (unsigned half = 8; half > 0; half /= 2) {
      const float other = block.down(max, half);
      max = max < other ? other : max;
    }
    return of_row(block, max);
  }

  template <class Block, class Function>
  ES_HD void write(const Block& block, std::int64_t n, float* y, Function f) const {
    if (row_ >= rows_) return;
    std::int64_t i = first(block);
    for (; i + (kAtOnce - 1) * kSumLanes < n; i += kAtOnce * kSumLanes) {
      Pack<4> values[kAtOnce];
      ES_UNROLL
      for (int k = 0; k < kAtOnce; ++k) values[k] = f(i + k * kSumLanes);
      ES_UNROLL
      for (int k = 0; k < kAtOnce; ++k) store_pack(y + i + k * kSumLanes, values[k]);
    }
    for (; i < n; i += kSumLanes) store_pack(y + i, f(i));
  }

  template <class Block>
  ES_HD void put(const Block& block, float* y, float value) const {
    if (block.thread() % 16 == 0 && row_ < rows_) y[row_] = value;
  }

 private:
  template <class Block>
  ES_HD static std::int64_t first(const Block& block) {
    return block.thread() % 16 * 4;
  }

  template <class Block, class Load, class Chain>
  ES_HD void walk(const Block& block, std::int64_t n, Load load, Chain chain) const {
    const std::int64_t begin = first(block);
    walk_run<kAtOnce>((n - begin + kSumLanes - 1) / kSumLanes,
                      [&](std::int64_t k) { return load(begin + k * kSumLanes); }, chain);
  }

  // Returns the value of the first of the 16 threads, in all of them.
  template <class Block>
  ES_HD static float of_row(const Block& block, float value) {
    const float low = block.first(value), high = block.first(block.down(value, 16));
    return block.thread() % 32 < 16 ? low : high;
  }

  std::int64_t row_, rows_;
};

// Calls f(width) with a constant for rows of n floats that are moved in packs; `pointers` are their
// addresses.
template <class Function, class... Pointers>
void with_row_packs(std::int64_t n, Function&& f, const Pointers*... pointers) {
  with_pack_width(n <= kSumChunk ? n : 1, f, pointers...);
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
