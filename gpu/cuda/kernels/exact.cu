// Exact products (G1X): the choice of a route, the digits that tensor cores multiply, and the route
// without tensor cores: a thread for each result, in integers of 64 bits.
#include "gpu/cuda/kernels/exact.h"

#include <algorithm>

#include "gpu/canonical/exact_math.h"
#include "gpu/cuda/kernels/exact_planes.h"
#include "gpu/cuda/kernels/pack.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// The rows of A, or the columns of B, of all products. Number k of row i of product p is at
// x[p * batch_step + i * row_step + k * depth_step].
struct ExactOperand {
  const float* x;
  std::int64_t rows, depth, batch_step, row_step, depth_step;

  ES_HD std::int64_t chunks() const { return ceil_div(depth, kDotChunk); }
  ES_HD const float* row(std::int64_t product, std::int64_t i) const {
    return x + product * batch_step + i * row_step;
  }
  // The place of a chunk in an array [product][row][chunk].
  ES_HD std::int64_t place(std::int64_t product, std::int64_t i, std::int64_t chunk) const {
    return (product * rows + i) * chunks() + chunk;
  }
};

ExactOperand left_operand(const GemmShape& s, std::int64_t step, const float* a) {
  return {a, s.m, s.k, step, s.a_row, s.a_col};
}
ExactOperand right_operand(const GemmShape& s, std::int64_t step, const float* b) {
  return {b, s.n, s.k, step, s.b_col, s.b_row};
}

// A thread for each chunk of each row finds the bits of its largest magnitude.
struct LargestMagnitudes {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  std::int64_t count;  // products
  ExactOperand from;
  std::uint32_t* most;  // [product][row][chunk]

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block), chunks = from.chunks();
    if (at >= count * from.rows * chunks) return;
    const std::int64_t row = at / chunks, first = at % chunks * kDotChunk;
    const float* const x = from.row(row / from.rows, row % from.rows);
    std::uint32_t largest = 0;
    for (std::int64_t k = first; k < smaller(from.depth, first + kDotChunk); ++k) {
      const std::uint32_t bits = magnitude_bits(x[k * from.depth_step]);
      if (largest < bits) largest = bits;
    }
    most[at] = largest;
  }
};

struct ExactProduct {
  static constexpr unsigned kThreads = 128;
  using Shared = NoShared;
  Arithmetic arithmetic;
  std::int64_t count;  // products
  ExactOperand a, b;
  const std::uint32_t *most_a, *most_b;
  ExactTarget target;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= count * a.rows * b.rows) return;
    const std::int64_t product = at / b.rows / a.rows, i = at / b.rows % a.rows, j = at % b.rows;
    const float *const x = a.row(product, i), *const y = b.row(product, j);
    float& out = target.c[product * target.step + i * target.row + j * target.col];
    float result = target.add ? out : 0.0f;
    for (std::int64_t chunk = 0; chunk < a.chunks(); ++chunk) {
      const ExactScale left = exact_scale(arithmetic, most_a[a.place(product, i, chunk)]);
      const ExactScale right = exact_scale(arithmetic, most_b[b.place(product, j, chunk)]);
      std::int64_t sum = 0;
      for (std::int64_t k = chunk * kDotChunk; k < smaller(a.depth, (chunk + 1) * kDotChunk); ++k) {
        const float p = exact_integer(arithmetic, x[k * a.depth_step], left);
        const float q = exact_integer(arithmetic, y[k * b.depth_step], right);
        sum += std::int64_t{static_cast<std::int32_t>(p)} * static_cast<std::int32_t>(q);
      }
      result = result + exact_result(static_cast<float>(sum), left.scale, right.scale);
    }
    result = with_one_nan(result);
    out = target.bias == nullptr ? result : result + target.bias[j];
  }
};

void find_magnitudes(Stream stream, std::int64_t count, const ExactOperand& from,
                     std::uint32_t* most) {
  const LargestMagnitudes kernel{count, from, most};
  launch(stream, {.x = blocks_for<LargestMagnitudes>(count * from.rows * from.chunks())}, kernel);
}

// Makes the digits and scales of an operand. A block has a chunk of eight rows; a thread has 16 k
// of one row, which are a unit of each digit. Neighbouring threads have neighbouring rows, so eight
// of them write 128 bytes in a row, whatever the strides of the operand are.
template <int kDigits>
struct SplitDigits {
  static constexpr unsigned kThreads = 256, kRows = 8, kRuns = kThreads / 32;
  static constexpr Arithmetic kArithmetic = arithmetic_of_digits<kDigits>();
  struct Shared {
    std::uint32_t most[kRuns][kRows];
  };
  struct alignas(kUnit) Unit {
    std::uint32_t words[kUnit / 4];
  };

  ExactOperand from;
  bool quads;  // whether four neighbours along k are one access
  Planes<kDigits> to;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const std::uint32_t chunk = block.x() % to.chunks, eight = block.x() / to.chunks;
    const std::uint32_t eights = ceil_div(to.rows, kRows), product = eight / eights;
    const std::uint32_t row = eight % eights * kRows + block.thread() % kRows;
    const std::uint32_t k = chunk * kDotChunk + block.thread() / kRows * kUnit;
    float x[kUnit];
    load(product, row, k, x);
    const ExactScale scale = exact_scale(kArithmetic, largest_of_chunk(block, shared, x));
    if (block.thread() < kRows && row < to.rows) to.chunk_scales(product, chunk)[row] = scale.scale;
    if (k < to.steps * kStepDepth) store(product, row, k, x, scale);
  }

 private:
  ES_HD void load(std::uint32_t product, std::uint32_t row, std::uint32_t k,
                  float (&x)[kUnit]) const {
    const float* const p = from.row(product, row) + k * from.depth_step;
    if (quads && row < to.rows && k + kUnit <= from.depth) {
      ES_UNROLL
      for (int i = 0; i < kUnit; i += 4) {
        const Pack<4> four = load_pack<4>(p + i);
        ES_UNROLL
        for (int j = 0; j < 4; ++j) x[i + j] = four.v[j];
      }
      return;
    }
    ES_UNROLL
    for (int i = 0; i < kUnit; ++i)
      x[i] = row < to.rows && k + i < from.depth ? p[i * from.depth_step] : 0.0f;
  }

  template <class Block>
  ES_HD static std::uint32_t largest_of_chunk(const Block& block, Shared& shared,
                                              const float (&x)[kUnit]) {
    std::uint32_t most = 0;
    ES_UNROLL
    for (int i = 0; i < kUnit; ++i) most = larger_bits(most, magnitude_bits(x[i]));
    const unsigned run = block.thread() / 32, lane = block.thread() % 32;
    ES_UNROLL
    for (unsigned delta = 16; delta >= kRows; delta /= 2)
      most = larger_bits(most, magnitude_bits(block.down(std::bit_cast<float>(most), delta)));
    if (lane < kRows) shared.most[run][lane] = most;
    block.sync();
    ES_UNROLL
    for (unsigned i = 0; i < kRuns; ++i)
      most = larger_bits(most, shared.most[i][block.thread() % kRows]);
    return most;
  }
  ES_HD static std::uint32_t larger_bits(std::uint32_t a, std::uint32_t b) { return a < b ? b : a; }

  ES_HD void store(std::uint32_t product, std::uint32_t row, std::uint32_t k,
                   const float (&x)[kUnit], const ExactScale& scale) const {
    std::int32_t q[kUnit];
    ES_UNROLL
    for (int i = 0; i < kUnit; ++i)
      q[i] = static_cast<std::int32_t>(exact_integer(kArithmetic, x[i], scale));
    std::uint8_t* const step = to.at(product, row / kPanelRows, k / kStepDepth) +
                               (k % kStepDepth / kUnit * kPanelRows + row % kPanelRows) * kUnit;
    ES_UNROLL
    for (int digit = 0; digit < kDigits; ++digit) {
      Unit unit = {};
      ES_UNROLL
      for (int i = 0; i < kUnit; ++i)
        unit.words[i / 4] |= (static_cast<std::uint32_t>(q[i] >> 8 * digit) & 255u) << i % 4 * 8;
      *reinterpret_cast<Unit*>(step + digit * kDigitBytes) = unit;
    }
  }
};

template <int kDigits>
void split(Stream stream, std::int64_t count, const ExactOperand& from, const Planes<kDigits>& to) {
  using Kernel = SplitDigits<kDigits>;
  const bool quads = from.depth_step == 1 && reinterpret_cast<std::uintptr_t>(from.x) % 16 == 0 &&
                     from.row_step % 4 == 0 && from.batch_step % 4 == 0;
  launch(stream, {.x = count * ceil_div(to.rows, Kernel::kRows) * to.chunks},
         Kernel{from, quads, to});
}

// The workspace of a route with digits: those of A and of B, aligned, then the scales.
template <int kDigits>
std::size_t plane_floats(const GemmShape& s, std::int64_t count) {
  const Planes<kDigits> a = planes<kDigits>(s.m, s.k), b = planes<kDigits>(s.n, s.k);
  const std::int64_t bytes = kUnit + a.bytes(count) + b.bytes(count);
  return static_cast<std::size_t>(bytes / 4 + a.scale_count(count) + b.scale_count(count));
}

template <int kDigits>
void multiply_digits(Stream stream, ExactRoute route, std::int64_t count, const ExactOperand& left,
                     const ExactOperand& right, const ExactTarget& target, float* ws) {
  Planes<kDigits> a = planes<kDigits>(left.rows, left.depth);
  Planes<kDigits> b = planes<kDigits>(right.rows, right.depth);
  const std::uintptr_t aligned = (reinterpret_cast<std::uintptr_t>(ws) + kUnit - 1) / kUnit * kUnit;
  a.digits = reinterpret_cast<std::uint8_t*>(aligned);
  b.digits = a.digits + a.bytes(count);
  a.scales = reinterpret_cast<float*>(b.digits + b.bytes(count));
  b.scales = a.scales + a.scale_count(count);
  split(stream, count, left, a);
  split(stream, count, right, b);
  if (route == ExactRoute::kGroups) {
    multiply_planes_in_groups(stream, count, a, b, target);
  } else {
    multiply_planes_in_tiles(stream, count, a, b, target);
  }
}

void multiply_results(Stream stream, Arithmetic arithmetic, std::int64_t count,
                      const ExactOperand& a, const ExactOperand& b, const ExactTarget& target,
                      float* ws) {
  auto* const most_a = reinterpret_cast<std::uint32_t*>(ws);
  std::uint32_t* const most_b = most_a + count * a.rows * a.chunks();
  find_magnitudes(stream, count, a, most_a);
  find_magnitudes(stream, count, b, most_b);
  const ExactProduct kernel{arithmetic, count, a, b, most_a, most_b, target};
  launch(stream, {.x = blocks_for<ExactProduct>(count * a.rows * b.rows)}, kernel);
}

// Results below which the making of digits and a tile that is not full do not pay.
constexpr std::int64_t kFewResults = 1024;

}  // namespace

bool has_exact_route(ExactRoute route) {
  const int capability = compute_capability();
  if (route == ExactRoute::kGroups) return capability == 90;
  return route == ExactRoute::kResults || capability >= 75;
}

ExactRoute exact_route(const GemmShape& s) {
  if (s.m * s.n < kFewResults || !has_exact_route(ExactRoute::kTiles)) return ExactRoute::kResults;
  return s.m > kPanelRows && has_exact_route(ExactRoute::kGroups) ? ExactRoute::kGroups
                                                                  : ExactRoute::kTiles;
}

std::size_t exact_workspace_floats(const GemmShape& s, std::int64_t count) {
  const auto most = static_cast<std::size_t>(count * (s.m + s.n) * ceil_div(s.k, kDotChunk));
  return std::max(most, s.arithmetic == Arithmetic::kX15 ? plane_floats<2>(s, count)
                                                         : plane_floats<3>(s, count));
}

void multiply_exactly(Stream stream, ExactRoute route, const GemmShape& s, std::int64_t count,
                      std::int64_t a_step, std::int64_t b_step, std::int64_t c_step, const float* a,
                      const float* b, const float* bias, float* c, float* ws) {
  const ExactOperand left = left_operand(s, a_step, a), right = right_operand(s, b_step, b);
  const ExactTarget target{c, bias, c_step, s.c_row, s.c_col, s.add};
  if (route == ExactRoute::kResults) {
    multiply_results(stream, s.arithmetic, count, left, right, target, ws);
  } else if (s.arithmetic == Arithmetic::kX15) {
    multiply_digits<2>(stream, route, count, left, right, target, ws);
  } else {
    multiply_digits<3>(stream, route, count, left, right, target, ws);
  }
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
