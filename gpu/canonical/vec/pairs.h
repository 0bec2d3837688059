#pragma once
// Products of bf16 numbers, two k at a time, on processors with the instruction VDPBF16PS. Copied
// operands have words of two numbers: the upper half is the number of the smaller k. The
// instruction adds the product of the upper halves to a sum and then that of the lower halves, with
// the rounding of two fused multiply-adds. That is the order of DOT, so the bits are the same.
//
// Only subnormal numbers are different: the instruction takes them as zeros, whatever the mode of
// the processor. A slice therefore begins with the range of its numbers, and a tile whose sums may
// become subnormal, or whose operands are not finite, uses fused multiply-adds. Let the smallest
// magnitudes except zero be at least 2^e and 2^f. They are multiples of 2^(e-7) and 2^(f-7), so all
// products and sums are multiples of 2^(e+f-14), also after rounding. None but zero is subnormal if
// e + f - 14 >= -126.
#include "gpu/canonical/vec/gemm_pack.h"

namespace es::gpu {
namespace {

// --- The instruction.

// The same with two fused multiply-adds, for all numbers.
inline Vec add_pair_products_exactly(Vec sum, Vec left, Vec right) {
  const IntVec upper = int_bits(0xffff0000u), a = bits_of(left), b = bits_of(right);
  sum = fma(from_bits(bit_and(a, upper)), from_bits(bit_and(b, upper)), sum);
  return fma(from_bits(lower_half_as_upper(a)), from_bits(lower_half_as_upper(b)), sum);
}

// Returns whether the instruction of this processor has the order and the rounding that its
// manufacturer describes: a comparison for numbers whose sums are rounded and cancel each other.
inline bool instruction_is_exact() {
  std::uint32_t state = 1;
  const auto numbers = [&](std::int32_t mask) {
    std::int32_t lanes[kWidth];
    for (std::int32_t& lane : lanes) {
      state = state * 1664525u + 1013904223u;
      const std::uint32_t mixed = state ^ state >> 15;
      // Exponents from 124 to 131 in both halves.
      lane = static_cast<std::int32_t>((mixed & 0x81ff81ffu) | 0x3e003e00u) & mask;
    }
    return from_bits(load_ints(lanes));
  };
  Vec sum = zero();
  for (int i = 0; i < 64; ++i) {
    const Vec left = numbers(-1), right = numbers(-1);
    const Vec expected = add_pair_products_exactly(sum, left, right);
    const Vec found = add_pair_products(sum, left, right);
    std::int32_t a[kWidth], b[kWidth];
    store_ints(a, bits_of(expected));
    store_ints(b, bits_of(found));
    for (std::int64_t j = 0; j < kWidth; ++j)
      if (a[j] != b[j]) return false;
    sum = i % 8 == 7 ? numbers(static_cast<std::int32_t>(0xffff0000u)) : found;
  }
  return true;
}

// Compares once. Several threads may do so at the same time, and find the same. (A static variable
// that is initialised at its first use would need library code; README.md of the parent folder.)
inline bool has_exact_instruction() {
  enum { kUnknown, kNo, kYes };
  static int known = kUnknown;
  int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (found == kUnknown) {
    found = has_pair_instruction() && instruction_is_exact() ? kYes : kNo;
    __atomic_store_n(&known, found, __ATOMIC_RELAXED);
  }
  return found == kYes;
}

// Operands of fewer k are not worth it. A last chunk of fewer than four k has no place for its
// range.
constexpr std::int64_t kPairsDepth = 32, kPairsTail = 4;

inline bool multiplies_pairs(const GemmShape& s) {
  const std::int64_t tail = s.k % kDotChunk;
  return s.a_stored != Factor::kF32 && s.b_stored != Factor::kF32 && s.k >= kPairsDepth &&
         (tail == 0 || tail >= kPairsTail) && has_exact_instruction();
}

// --- Ranges.

// The smallest magnitude but zero, minus one, and the largest magnitude of the numbers of a slice,
// as bits of bf16 numbers. It lies in the first words of the slice.
struct PairRange {
  std::uint32_t smallest = 0xffff, largest = 0;

  bool finite() const { return largest < 0x7f80; }
  // The biased exponent of the smallest magnitude: 0 for subnormal numbers, large if all are zeros.
  std::uint32_t exponent() const { return (smallest + 1) >> 7; }
};
constexpr std::int64_t kRangeFloats = kLineFloats;

inline bool sums_are_normal(const PairRange& a, const PairRange& b) {
  const std::uint32_t e = a.exponent(), f = b.exponent();
  return a.finite() && b.finite() && e > 0 && f > 0 && e + f >= 2 * 127 + 14 - 126;
}

// Collects the range of words while they are copied.
class SeenPairs {
 public:
  void see(IntVec words) {
    const IntVec magnitudes = bit_and(words, int_bits(0x7fff7fffu));
    smallest_ = smaller_halves(smallest_, halves_minus_one(magnitudes));
    largest_ = larger_halves(largest_, magnitudes);
  }
  void add_to(PairRange& range) const {
    std::uint16_t smallest[2 * kWidth], largest[2 * kWidth];
    store_ints(reinterpret_cast<std::int32_t*>(smallest), smallest_);
    store_ints(reinterpret_cast<std::int32_t*>(largest), largest_);
    for (std::int64_t i = 0; i < 2 * kWidth; ++i) {
      if (smallest[i] < range.smallest) range.smallest = smallest[i];
      if (largest[i] > range.largest) range.largest = largest[i];
    }
  }

 private:
  IntVec smallest_ = int_bits(0xffffffffu), largest_ = int_bits(0);
};

// --- Copies. They write kWidth words at a time.

// Calls body(at), where at(i) returns the bf16 numbers from number i on in the upper halves of
// lanes, and anything in the lower halves.
template <class Body>
inline __attribute__((always_inline)) void with_halves(Factor stored, const float* x, Body body) {
  if (stored == Factor::kBf16) {
    const auto* const numbers = reinterpret_cast<const Bf16*>(x);
    body([=](std::int64_t i) { return load_upper_halves(numbers + i); });
  } else {
    body([=](std::int64_t i) { return bf16_words(load(x + i)); });
  }
}

inline std::uint32_t half_number(Factor stored, const float* x, std::int64_t index) {
  if (stored == Factor::kBf16) return reinterpret_cast<const Bf16*>(x)[index];
  return narrowed(x[index]);
}

// Two rows of numbers, of which the second may be absent.
struct RowPair {
  Factor stored;
  const float* x;
  std::int64_t first, second;  // numbers; second < 0: zeros

  std::uint32_t word(std::int64_t i) const {
    const std::uint32_t lower = second < 0 ? 0 : half_number(stored, x, second + i);
    return half_number(stored, x, first + i) << 16 | lower;
  }
  // Writes `width` words, at most kWidth, and zeros after them.
  void copy_few(std::int64_t width, float* to, SeenPairs& seen) const {
    std::int32_t words[kWidth] = {};
    for (std::int64_t i = 0; i < width; ++i) words[i] = static_cast<std::int32_t>(word(i));
    seen.see(load_ints(words));
    store(to, from_bits(load_ints(words)));
  }
};

// Pairs of rows of `width` contiguous numbers.
struct RowsOfPairs {
  Factor stored;
  const float* x;
  std::int64_t first, row_stride, depth;

  RowPair pair(std::int64_t k) const {
    const std::int64_t at = first + k * row_stride;
    return {stored, x, at, k + 1 < depth ? at + row_stride : -1};
  }
};

// Copies the pairs of rows to rows of words. A row that is narrower than a vector is filled with
// zeros.
inline void copy_rows_of_pairs(const RowsOfPairs& rows, std::int64_t width, float* to,
                               std::int64_t to_stride, SeenPairs& seen) {
  std::int64_t k = 0;
  // The second vector ends where the row ends, so it may overlap the first.
  const std::int64_t last = width - kWidth;
  if (last >= 0) {
    with_halves(rows.stored, rows.x, [&](auto at) {
      for (; k + 1 < rows.depth; k += 2, to += to_stride) {
        const RowPair pair = rows.pair(k);
        const auto copy = [&](std::int64_t i) {
          const IntVec words = pair_of_halves(at(pair.first + i), at(pair.second + i));
          seen.see(words);
          store(to + i, from_bits(words));
        };
        copy(0);
        if (last > 0) copy(last);
      }
    });
  }
  for (; k < rows.depth; k += 2, to += to_stride) {
    const RowPair pair = rows.pair(k);
    for (std::int64_t i = 0; i < width; i += kWidth) {
      const RowPair rest{pair.stored, pair.x, pair.first + i,
                         pair.second < 0 ? -1 : pair.second + i};
      rest.copy_few(smaller(kWidth, width - i), to + i, seen);
    }
  }
}

// Copies n numbers, from number `first` on, to words of two numbers each. REQUIRES: there is room
// for whole vectors.
inline void copy_pairs_along(Factor stored, const float* x, std::int64_t first, std::int64_t n,
                             float* to, SeenPairs& seen) {
  const auto put = [&](std::int64_t i, IntVec words) {
    seen.see(words);
    store(to + i / 2, from_bits(words));
  };
  for (std::int64_t i = 0; i < n; i += 2 * kWidth) {
    const std::int64_t left = n - i;
    if (stored == Factor::kBf16) {
      const Bf16* const numbers = reinterpret_cast<const Bf16*>(x) + first + i;
      put(i, swap_halves(left < 2 * kWidth ? load_halves(numbers, left) : load_words(numbers)));
      continue;
    }
    const float* const from = x + first + i;
    if (left >= 2 * kWidth) {
      put(i, pairs_along(bf16_words(load(from)), bf16_words(load(from + kWidth))));
    } else {
      const Part one(left), two(larger(0, left - kWidth));
      put(i, pairs_along(bf16_words(one.load(from)), bf16_words(two.load(from + kWidth))));
    }
  }
}

// Copies columns whose k are k_stride numbers apart to rows of words: some k at a time become rows,
// which are then transposed.
inline void copy_transposed_pairs(Factor stored, std::int64_t depth, std::int64_t columns,
                                  const float* x, std::int64_t first, std::int64_t k_stride,
                                  std::int64_t column_stride, float* to, std::int64_t to_stride,
                                  std::int64_t to_columns, SeenPairs& seen) {
  constexpr std::int64_t kDepth = 128, kRow = kDepth / 2 + kLineFloats;
  alignas(64) float rows[kPanelWidth * kRow];
  for (std::int64_t k = 0; k < depth; k += kDepth) {
    const std::int64_t n = smaller(kDepth, depth - k);
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = first + k * k_stride + j * column_stride;
      if (k_stride == 1) {
        copy_pairs_along(stored, x, at, n, rows + j * kRow, seen);
        continue;
      }
      for (std::int64_t i = 0; i < n; i += 2 * kWidth) {
        Bf16 numbers[2 * kWidth] = {};
        const std::int64_t count = smaller(2 * kWidth, n - i);
        for (std::int64_t l = 0; l < count; ++l)
          numbers[l] = static_cast<Bf16>(half_number(stored, x, at + (i + l) * k_stride));
        const IntVec words = swap_halves(load_words(numbers));
        seen.see(words);
        store(rows + j * kRow + i / 2, from_bits(words));
      }
    }
    pack_transposed(ceil_div(n, 2), columns, rows, 1, kRow, to + k / 2 * to_stride, to_stride,
                    to_columns);
  }
}

// --- Tiles.

struct PairProduct {
  static Vec add_to(Vec sum, Vec left, Vec right) { return add_pair_products(sum, left, right); }
};
struct ExactPairProduct {
  static Vec add_to(Vec sum, Vec left, Vec right) {
    return add_pair_products_exactly(sum, left, right);
  }
};

// Copied slices whose words are pairs of bf16 numbers; WholeNumbers (gemm_pack.h) has the contract.
struct Pairs {
  static constexpr std::int64_t kPart = 2 * kWidth;
  static std::int64_t words(std::int64_t depth) { return ceil_div(depth, 2); }
  static std::int64_t row_stride(std::int64_t depth) {
    return copied_row_stride(words(smaller(depth, kDotChunk)));
  }
  static void pack_tile(const GemmShape& s, ASide side, const Span& chunk, const Span& part,
                        const Span& rows, std::int64_t stride, const float* a, float* slice) {
    SeenPairs seen;
    const std::int64_t skipped = (part.begin - chunk.begin) / 2;
    const std::int64_t first = rows.begin * s.a_row + part.begin * s.a_col;
    float* const out = slice + kRangeFloats + (side == ASide::kRows ? skipped : skipped * stride);
    if (side == ASide::kRows) {
      for (std::int64_t i = 0; i < rows.size(); ++i)
        copy_pairs_along(s.a_stored, a, first + i * s.a_row, part.size(), out + i * stride, seen);
    } else if (s.a_row != 1) {
      copy_transposed_pairs(s.a_stored, part.size(), rows.size(), a, first, s.a_col, s.a_row, out,
                            stride, rows.size(), seen);
    } else {
      pack_strip(s, part, rows, a, first, out, seen);
    }
    finish(chunk, part, seen, slice);
  }
  static void pack_panel(const GemmShape& s, const Span& chunk, const Span& part,
                         const Span& columns, const float* b, float* slice) {
    SeenPairs seen;
    const std::int64_t width = columns.size(), stride = copied_panel_stride(width);
    const std::int64_t first = part.begin * s.b_row + columns.begin * s.b_col;
    float* const out = slice + kRangeFloats + (part.begin - chunk.begin) / 2 * stride;
    if (s.b_col == 1) {
      copy_rows_of_pairs({s.b_stored, b, first, s.b_row, part.size()}, width, out, stride, seen);
    } else {
      copy_transposed_pairs(s.b_stored, part.size(), width, b, first, s.b_row, s.b_col, out, stride,
                            larger(width, kWidth), seen);
    }
    finish(chunk, part, seen, slice);
  }
  // Changes t in place: a copy would wait for all results that are on their way to memory.
  static void run_tile(ASide side, std::int64_t rows, GemmTile& t, const Fetch& fetch) {
    const bool normal = sums_are_normal(range_of(t.a), range_of(t.b));
    t.a += kRangeFloats;
    t.b += kRangeFloats;
    if (normal) {
      run_gemm_tile<PairProduct>(side, rows, t, fetch);
    } else {
      run_gemm_tile<ExactPairProduct>(side, rows, t, fetch);
    }
  }

 private:
  static PairRange range_of(const float* slice) {
    PairRange range;
    __builtin_memcpy(static_cast<void*>(&range), slice, sizeof(range));
    return range;
  }
  static void finish(const Span& chunk, const Span& part, const SeenPairs& seen, float* slice) {
    PairRange range;
    if (part.begin != chunk.begin) range = range_of(slice);
    seen.add_to(range);
    __builtin_memcpy(slice, &range, sizeof(range));
  }
  // A tile of an A with contiguous rows. A pair of k has kTileRows words, fewer than a vector: the
  // store of the next pair overwrites the rest, and the last pair is written in part.
  static void pack_strip(const GemmShape& s, const Span& part, const Span& rows, const float* a,
                         std::int64_t first, float* out, SeenPairs& seen) {
    static_assert(kTileRows <= kWidth);
    const RowsOfPairs pairs{s.a_stored, a, first, s.a_col, part.size()};
    const std::int64_t last = words(part.size()) - 1;
    const Part lanes(rows.size());
    // Whole vectors are read as long as both of a pair lie within the operand.
    const std::int64_t end = (s.k - 1) * s.a_col + s.m - kWidth;
    std::int64_t i = 0;
    with_halves(s.a_stored, a, [&](auto at) {
      for (; i < last; ++i) {
        const RowPair pair = pairs.pair(2 * i);
        if (pair.second > end) break;
        const IntVec words = pair_of_halves(at(pair.first), at(pair.second));
        seen.see(bits_of(lanes.keep(from_bits(words))));
        store(out + i * kTileRows, from_bits(words));
      }
    });
    for (; i <= last; ++i) {
      float words[kWidth];
      pairs.pair(2 * i).copy_few(rows.size(), words, seen);
      Part(i < last ? kWidth : rows.size()).store(out + i * kTileRows, load(words));
    }
  }
};

}  // namespace
}  // namespace es::gpu
