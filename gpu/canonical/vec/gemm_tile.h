#pragma once
// The register tile of GEMM and attention: up to kTileRows x 2 vectors of DOT results (G1) that
// advance together through a part of one chunk of K. Operands are read in place or from the copies
// of gemm_pack.h; only the strides differ. With pairs of bf16 numbers (pairs.h) a word is two k.
#include "gpu/canonical/vec/lanes.h"

namespace es::gpu {
namespace {

// Whether the k of one row of A are contiguous, or a_stride floats apart with contiguous rows.
enum class ASide { kRows, kColumns };

// Rows of memory that a tile prefetches into the second-level cache while it computes, line by
// line: an operand of the work that follows.
struct Fetch {
  const char* at = nullptr;
  std::int64_t row_bytes = 0, row_stride = 0;  // bytes
  std::int64_t rows = 0;
};

// Iterates over a Fetch. (Its members are read one by one. A vector copy of the whole struct would
// wait for the scalar stores that wrote it, behind all results that are on their way to memory.)
class Fetching {
 public:
  inline __attribute__((always_inline)) explicit Fetching(const Fetch& f)
      : at_(f.at),
        row_end_(f.at + f.row_bytes),
        row_stride_(f.row_stride),
        to_next_row_(f.row_stride - f.row_bytes),
        rows_(f.rows) {}
  inline __attribute__((always_inline)) void step() {
    if (rows_ == 0) return;
    __builtin_prefetch(at_, 0, 2);
    at_ += kLineBytes;
    if (at_ < row_end_) return;
    at_ = row_end_ + to_next_row_;
    row_end_ += row_stride_;
    --rows_;
  }

 private:
  static constexpr std::int64_t kLineBytes = 64;
  const char *at_, *row_end_;
  std::int64_t row_stride_, to_next_row_, rows_;
};

struct GemmTile {
  const float* a;
  std::int64_t a_stride;  // by rows: distance between rows; by columns: between the k
  const float* b;
  std::int64_t b_stride;  // distance between the k
  std::int64_t width;     // columns, at most kVecs * kWidth; at least kWidth with two vectors
  std::int64_t depth;     // number of k (or of pairs), all in one chunk
  float* c;
  std::int64_t c_stride;  // distance between rows
  const float* start;     // the chains continue from here; nullptr: from +0
  std::int64_t start_stride;
  bool add;             // the chunk result is added to c, otherwise to +0
  const float* bias;    // added afterwards, by column; nullptr: nothing
  bool stream = false;  // store past the caches; needs aligned whole vectors, no add, no bias
};

// Vector j of a row of results begins at column tile_offset(j). The second vector ends where the
// tile ends, so it may overlap the first. Both compute the same bits in the overlap, and no mask is
// needed.
template <int kVecs>
inline __attribute__((always_inline)) std::int64_t tile_offset(const GemmTile& t, int j) {
  return j == 0 ? 0 : t.width - kWidth;
}

template <int kRows, int kVecs>
struct GemmSums {
  Vec v[kRows][kVecs];
};

// Calls body(i, j, offset of the vector).
template <int kRows, int kVecs, class Body>
inline __attribute__((always_inline)) void for_sums(const GemmTile& t, Body body) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) body(i, j, tile_offset<kVecs>(t, j));
  }
}

template <int kRows, int kVecs>
inline __attribute__((always_inline)) void start_sums(const GemmTile& t,
                                                      GemmSums<kRows, kVecs>& sum) {
  if (t.start == nullptr) {
    return for_sums<kRows, kVecs>(t, [&](int i, int j, std::int64_t) { sum.v[i][j] = zero(); });
  }
  const Part part(t.width);
  for_sums<kRows, kVecs>(t, [&](int i, int j, std::int64_t offset) {
    const float* from = t.start + i * t.start_stride + offset;
    sum.v[i][j] = kVecs == 1 ? part.load(from) : load(from);
  });
}

// All loads come before the stores, because the vectors of a row may overlap.
template <int kRows, int kVecs>
inline __attribute__((always_inline)) void finish_sums(const GemmTile& t,
                                                       GemmSums<kRows, kVecs>& sum) {
  const Part part(t.width);
  const auto read = [&](const float* p) { return kVecs == 1 ? part.load(p) : load(p); };
  for_sums<kRows, kVecs>(t, [&](int i, int j, std::int64_t offset) {
    const Vec before = t.add ? read(t.c + i * t.c_stride + offset) : zero();
    sum.v[i][j] = add(before, sum.v[i][j]);
  });
  if (t.bias != nullptr) {
    for_sums<kRows, kVecs>(t, [&](int i, int j, std::int64_t offset) {
      sum.v[i][j] = add(sum.v[i][j], read(t.bias + offset));
    });
  }
  for_sums<kRows, kVecs>(t, [&](int i, int j, std::int64_t offset) {
    float* to = t.c + i * t.c_stride + offset;
    if (t.stream) {
      stream(to, sum.v[i][j]);
    } else if (kVecs == 1) {
      part.store(to, sum.v[i][j]);
    } else {
      store(to, sum.v[i][j]);
    }
  });
}

// B is prefetched from the second-level cache this many k ahead.
constexpr std::int64_t kGemmAhead = 16;

// How a tile continues a chain: with the product of two fp32 numbers.
struct NumberProduct {
  static Vec add_to(Vec sum, Vec left, Vec right) { return fma(left, right, sum); }
};

template <class Product, ASide kSide, int kRows, int kVecs>
void gemm_tile(const GemmTile& t, const Fetch& fetch) {
  // Rows are addressed in groups of three: pointer, pointer + stride, pointer + 2 strides.
  constexpr bool kByRows = kSide == ASide::kRows;
  constexpr int kGroups = kByRows ? (kRows + 2) / 3 : 1;
  GemmSums<kRows, kVecs> sum;
  start_sums(t, sum);
  const std::int64_t a_stride = t.a_stride, b_stride = t.b_stride;
  const std::int64_t last = tile_offset<kVecs>(t, kVecs - 1);
  const float* b = t.b;
  Fetching fetching(fetch);
  const float* a[kGroups];
#pragma GCC unroll 8
  for (int g = 0; g < kGroups; ++g) a[g] = t.a + 3 * g * a_stride;
  for (std::int64_t k = 0; k < t.depth; ++k, b += b_stride) {
    __builtin_prefetch(b + kGemmAhead * b_stride);
    if constexpr (kVecs * kWidth > kLineFloats)
      __builtin_prefetch(b + kGemmAhead * b_stride + last);
    fetching.step();
    Vec right[kVecs];
    right[0] = load(b);
    if constexpr (kVecs == 2) right[1] = load(b + last);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      // Otherwise GCC keeps a pointer for each row.
      if (kByRows && i % 3 == 0) asm("" : "+r"(a[i / 3]));
      const Vec left = set(kByRows ? a[i / 3][i % 3 * a_stride] : a[0][i]);
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) sum.v[i][j] = Product::add_to(sum.v[i][j], left, right[j]);
    }
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g) a[g] += kByRows ? 1 : a_stride;
  }
  finish_sums(t, sum);
}

using GemmTileFunction = void (*)(const GemmTile&, const Fetch&);

template <class Product, ASide kSide, int kVecs, int kRows = kTileRows>
GemmTileFunction gemm_tile_function(std::int64_t rows) {
  if (rows == kRows) return gemm_tile<Product, kSide, kRows, kVecs>;
  if constexpr (kRows > 1) return gemm_tile_function<Product, kSide, kVecs, kRows - 1>(rows);
  return nullptr;
}

template <class Product, ASide kSide>
GemmTileFunction gemm_tile_function(std::int64_t rows, std::int64_t width) {
  return width > kWidth ? gemm_tile_function<Product, kSide, 2>(rows)
                        : gemm_tile_function<Product, kSide, 1>(rows);
}

template <class Product = NumberProduct>
void run_gemm_tile(ASide side, std::int64_t rows, const GemmTile& t, const Fetch& fetch) {
  const GemmTileFunction function =
      side == ASide::kRows ? gemm_tile_function<Product, ASide::kRows>(rows, t.width)
                           : gemm_tile_function<Product, ASide::kColumns>(rows, t.width);
  function(t, fetch);
}

// Returns the width of the next panel if `columns` columns are left. Only a panel that is the only
// one may be narrower than a vector.
inline std::int64_t next_panel(std::int64_t columns) {
  if (columns <= kPanelWidth) return columns;
  return columns < kPanelWidth + kWidth ? kWidth : kPanelWidth;
}

}  // namespace
}  // namespace es::gpu
