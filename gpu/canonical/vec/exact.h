#pragma once
// Exact products (G1X, exact_math.h). A panel of columns of B and a tile of rows of A become
// integers; their sums are exact in any order. Two forms of integers:
//   Wide   64-bit floats. A sum of 512 products of 22 bits is less than 2^53, so the fused
//          multiply-adds never round.
//   Words  of 16 bits, for x15, with the instruction VPDPWSSD. A number of B is two parts of 8
//          bits. A sum of 512 products with one part is less than 2^31.
#include "gpu/canonical/exact_math.h"
#include "gpu/canonical/vec/gemm_pack.h"

namespace es::gpu {
namespace {

constexpr std::int64_t kDoubles = kWidth / 2;
// Rows of a tile whose sums are in registers together.
constexpr std::int64_t kExactRows = kDoubles;

// --- The two forms. A slice is one chunk of kWidth rows or columns; `depth` is even. put_left()
// and put_right() store the integers of k and k + 1. multiply() returns the sums of kExactRows rows
// from `row` on of a slice of A with all columns of a slice of B, each rounded to fp32 once.

struct Wide {
  // Floats of a slice for each lane and k.
  static constexpr std::int64_t kLeftFloats = 2, kRightFloats = 2;

  static void put_left(std::int64_t depth, std::int64_t k, Vec first, Vec second, float* slice) {
    // The lower half of the lanes of all k, then the upper half.
    double *const low = reinterpret_cast<double*>(slice), *const high = low + depth * kDoubles;
    store_as_doubles(low + k * kDoubles, high + k * kDoubles, first);
    store_as_doubles(low + (k + 1) * kDoubles, high + (k + 1) * kDoubles, second);
  }
  static void put_right(std::int64_t depth, std::int64_t k, Vec first, Vec second, float* slice) {
    put_left(depth, k, first, second, slice);
  }
  static void multiply(std::int64_t depth, std::int64_t row, const float* left, const float* right,
                       Vec sums[kExactRows]) {
    static_assert(kExactRows == kDoubles);
    const double* const a = reinterpret_cast<const double*>(left) + row * depth;
    const double* const low = reinterpret_cast<const double*>(right);
    const double* const high = low + depth * kDoubles;
    Doubles sum[kExactRows][2];
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kExactRows; ++i) sum[i][0] = sum[i][1] = zero_doubles();
    for (std::int64_t k = 0; k < depth * kDoubles; k += kDoubles) {
      const Doubles b[2] = {load_doubles(low + k), load_doubles(high + k)};
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < kExactRows; ++i) {
        const Doubles x = set_double(a[k + i]);
        sum[i][0] = fma(x, b[0], sum[i][0]);
        sum[i][1] = fma(x, b[1], sum[i][1]);
      }
    }
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kExactRows; ++i) sums[i] = nearest_floats(sum[i][0], sum[i][1]);
  }
};

#if defined(__AVX512F__)
struct Words {
  static constexpr std::int64_t kLeftFloats = 1, kRightFloats = 1;

  static void put_left(std::int64_t, std::int64_t k, Vec first, Vec second, float* slice) {
    store(slice + k / 2 * kWidth,
          from_bits(pair_of_words(nearest_ints(first), nearest_ints(second))));
  }
  // The high parts, then the low parts.
  static void put_right(std::int64_t, std::int64_t k, Vec first, Vec second, float* slice) {
    const IntVec one = nearest_ints(first), two = nearest_ints(second);
    store(slice + k * kWidth, from_bits(pair_of_words(high_part(one), high_part(two))));
    store(slice + (k + 1) * kWidth, from_bits(pair_of_words(low_part(one), low_part(two))));
  }
  static void multiply(std::int64_t depth, std::int64_t row, const float* left, const float* right,
                       Vec sums[kExactRows]) {
    const auto* a = reinterpret_cast<const std::int32_t*>(left) + row;
    const auto* b = reinterpret_cast<const std::int32_t*>(right);
    IntVec high[kExactRows], low[kExactRows];
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kExactRows; ++i) high[i] = low[i] = set_int(0);
    for (std::int64_t k = 0; k < depth; k += 2, a += kWidth, b += 2 * kWidth) {
      const IntVec high_b = load_ints(b), low_b = load_ints(b + kWidth);
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < kExactRows; ++i) {
        const IntVec x = set_int(a[i]);
        high[i] = add_word_products(high[i], x, high_b);
        low[i] = add_word_products(low[i], x, low_b);
      }
    }
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kExactRows; ++i) sums[i] = joined_parts(high[i], low[i]);
  }
};
#endif

// --- From numbers to integers.

// ExactScale for kWidth rows or columns.
struct LaneScales {
  // `most` are the bits of the largest magnitudes.
  LaneScales(Arithmetic arithmetic, IntVec most) {
    const IntVec bits = set_int(integer_bits(arithmetic)), bias = set_int(127);
    const IntVec least = set_int(kLeastExponent);
    IntVec e = sub(shift_right_23(most), set_int(126));
    e = select(less(e, least), least, e);
    finite = less(most, int_bits(kInfinityBits));
    factor = from_bits(shift_left_23(add(sub(bits, e), bias)));
    scale = select(finite, from_bits(shift_left_23(add(sub(e, bits), bias))),
                   from_bits(int_bits(kQuietNanBits)));
    largest = set(static_cast<float>((1 << integer_bits(arithmetic)) - 1));
  }
  Vec integers(Vec x) const {
    // An infinity is removed before it is multiplied, which would raise a flag (float_flags.h).
    const Vec q = rounded(mul(keep_if(finite, x), factor));
    return larger_of(smaller_of(q, largest), negate(largest));
  }

  Test finite;
  Vec factor, scale, largest;
};

// Calls put(k, integers of k, integers of k + 1) for the numbers [depth][kWidth] of a slice, where
// depth is even. Returns the scales.
template <class Put>
inline __attribute__((always_inline)) Vec make_integers(Arithmetic arithmetic, std::int64_t depth,
                                                        const float* numbers, Put put) {
  IntVec most = set_int(0);
  for (std::int64_t k = 0; k < depth; ++k) {
    const IntVec bits = bit_and(bits_of(load(numbers + k * kWidth)), set_int(INT32_MAX));
    most = select(less(most, bits), bits, most);
  }
  const LaneScales scales(arithmetic, most);
  for (std::int64_t k = 0; k < depth; k += 2) {
    const float* const from = numbers + k * kWidth;
    put(k, scales.integers(load(from)), scales.integers(load(from + kWidth)));
  }
  return scales.scale;
}

// --- The loops. A block of columns stays in the second-level cache, and tiles of rows pass by.

// The parts of the workspace.
template <class Form>
struct ExactPlan {
  explicit ExactPlan(const GemmShape& s)
      : depth(round_up(smaller(s.k, kDotChunk), 2)),
        columns(
            smaller(round_up(s.n, kWidth),
                    larger(1, kResidentFloats / (depth * Form::kRightFloats * kWidth)) * kWidth)) {}
  std::int64_t left_floats() const { return depth * Form::kLeftFloats * kWidth; }
  std::int64_t right_floats() const { return depth * Form::kRightFloats * kWidth; }
  // The numbers of a slice, a slice of A with its scales, and the slices of B with theirs.
  std::int64_t floats() const {
    return depth * kWidth + left_floats() + kWidth + columns / kWidth * right_floats() + columns;
  }

  std::int64_t depth, columns;
};

// One product in progress.
template <class Form>
class ExactGemm {
 public:
  ExactGemm(const GemmShape& s, const float* a, const float* b, const float* bias, float* c,
            float* ws)
      : s_(s),
        rows_as_columns_(transposed(s)),
        plan_(s),
        a_(a),
        b_(b),
        bias_(bias),
        c_(c),
        numbers_(ws),
        left_(numbers_ + plan_.depth * kWidth),
        left_scales_(left_ + plan_.left_floats()),
        right_(left_scales_ + kWidth),
        right_scales_(right_ + plan_.columns / kWidth * plan_.right_floats()) {}

  void run() {
    for (std::int64_t j = 0; j < s_.n; j += plan_.columns) {
      const Span columns{j, smaller(s_.n, j + plan_.columns)};
      for (std::int64_t k = 0; k < s_.k; k += kDotChunk) {
        const Span chunk{k, smaller(s_.k, k + kDotChunk)};
        for (std::int64_t at = columns.begin; at < columns.end; at += kWidth)
          make_panel(chunk, {at, smaller(columns.end, at + kWidth)}, at - columns.begin);
        for (std::int64_t i = 0; i < s_.m; i += kWidth)
          multiply_tile(chunk, {i, smaller(s_.m, i + kWidth)}, columns);
      }
    }
  }

 private:
  // Copies columns of B, or rows of A as columns of its transpose, with +0 behind the last k.
  std::int64_t copy_numbers_of(const GemmShape& s, const Span& chunk, const Span& lanes,
                               const float* from) {
    pack_panel_at(s, chunk, lanes, from, numbers_);
    const std::int64_t depth = round_up(chunk.size(), 2);
    if (depth != chunk.size()) store(numbers_ + chunk.size() * kWidth, zero());
    return depth;
  }

  void make_panel(const Span& chunk, const Span& columns, std::int64_t at) {
    const std::int64_t depth = copy_numbers_of(s_, chunk, columns, b_);
    float* const slice = right_ + at / kWidth * plan_.right_floats();
    store(right_scales_ + at,
          make_integers(s_.arithmetic, depth, numbers_, [=](std::int64_t k, Vec first, Vec second) {
            Form::put_right(depth, k, first, second, slice);
          }));
  }

  void multiply_tile(const Span& chunk, const Span& rows, const Span& columns) {
    const std::int64_t depth = copy_numbers_of(rows_as_columns_, chunk, rows, a_);
    float* const slice = left_;
    store(left_scales_,
          make_integers(s_.arithmetic, depth, numbers_, [=](std::int64_t k, Vec first, Vec second) {
            Form::put_left(depth, k, first, second, slice);
          }));
    for (std::int64_t row = 0; row < rows.size(); row += kExactRows) {
      for (std::int64_t j = columns.begin; j < columns.end; j += kWidth) {
        const std::int64_t at = j - columns.begin;
        Vec sums[kExactRows];
        Form::multiply(depth, row, left_, right_ + at / kWidth * plan_.right_floats(), sums);
        const Span panel{j, smaller(columns.end, j + kWidth)};
        const Vec scales = load(right_scales_ + at);
        for (std::int64_t i = 0; i < smaller(kExactRows, rows.size() - row); ++i)
          add_results(chunk, rows.begin + row + i, panel,
                      mul(mul(sums[i], set(left_scales_[row + i])), scales));
      }
    }
  }

  // Adds the results of a chunk to those of the chunks before it.
  void add_results(const Span& chunk, std::int64_t row, const Span& columns, Vec results) {
    const bool first = chunk.begin == 0 && !s_.add, last = chunk.end == s_.k;
    float* const c = c_ + row * s_.c_row + columns.begin * s_.c_col;
    if (s_.c_col == 1) {
      const auto add_to = [&](auto at) {
        Vec sum = add(first ? zero() : at.load(c), results);
        if (last) sum = select(unordered(sum, sum), from_bits(int_bits(kQuietNanBits)), sum);
        if (last && bias_ != nullptr) sum = add(sum, at.load(bias_ + columns.begin));
        at.store(c, sum);
      };
      return columns.size() == kWidth ? add_to(Whole()) : add_to(Part(columns.size()));
    }
    float lanes[kWidth];
    store(lanes, results);
    for (std::int64_t j = 0; j < columns.size(); ++j) {
      float& out = c[j * s_.c_col];
      // The first chunk is added to +0, as the definition demands.
      out = (first ? 0.0f : out) + lanes[j];
      if (last) out = with_one_nan(out);
      if (last && bias_ != nullptr) out = out + bias_[columns.begin + j];
    }
  }

  const GemmShape& s_;
  GemmShape rows_as_columns_;
  ExactPlan<Form> plan_;
  const float *a_, *b_, *bias_;
  float *c_, *numbers_, *left_, *left_scales_, *right_, *right_scales_;
};

// Calls with(form) for the form of the shape's integers.
template <class With>
auto with_exact_form(const GemmShape& s, With with) {
#if defined(__AVX512F__)
  if (s.arithmetic == Arithmetic::kX15 && has_word_instruction()) return with(Words());
#else
  (void)s;
#endif
  return with(Wide());
}

inline std::size_t exact_workspace_floats(const GemmShape& s) {
  return with_exact_form(s, [&](auto form) {
    return static_cast<std::size_t>(ExactPlan<decltype(form)>(s).floats());
  });
}

inline void exact_gemm(const GemmShape& s, const float* a, const float* b, const float* bias,
                       float* c, float* ws) {
  with_exact_form(s, [&](auto form) { ExactGemm<decltype(form)>(s, a, b, bias, c, ws).run(); });
}

}  // namespace
}  // namespace es::gpu
