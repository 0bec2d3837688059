// Exact products (G1X): a thread for each result, in integers of 64 bits. This is the simplest way
// to the bits, and not a fast one: it uses no tensor cores.
#include "gpu/cuda/kernels/exact.h"

#include "gpu/canonical/exact_math.h"
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
  bool add;
  std::int64_t count;  // products
  ExactOperand a, b;
  const std::uint32_t *most_a, *most_b;
  const float* bias;
  float* c;
  std::int64_t c_step, c_row, c_col;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t at = thread_in_grid(*this, block);
    if (at >= count * a.rows * b.rows) return;
    const std::int64_t product = at / b.rows / a.rows, i = at / b.rows % a.rows, j = at % b.rows;
    const float *const x = a.row(product, i), *const y = b.row(product, j);
    float& out = c[product * c_step + i * c_row + j * c_col];
    float result = add ? out : 0.0f;
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
    out = bias == nullptr ? result : result + bias[j];
  }
};

void find_magnitudes(Stream stream, std::int64_t count, const ExactOperand& from,
                     std::uint32_t* most) {
  const LargestMagnitudes kernel{count, from, most};
  launch(stream, {.x = blocks_for<LargestMagnitudes>(count * from.rows * from.chunks())}, kernel);
}

}  // namespace

std::size_t exact_workspace_floats(const GemmShape& s, std::int64_t count) {
  return static_cast<std::size_t>(count * (s.m + s.n) * ceil_div(s.k, kDotChunk));
}

void multiply_exactly(Stream stream, const GemmShape& s, std::int64_t count, std::int64_t a_step,
                      std::int64_t b_step, std::int64_t c_step, const float* a, const float* b,
                      const float* bias, float* c, float* ws) {
  const ExactOperand left = left_operand(s, a_step, a), right = right_operand(s, b_step, b);
  auto* const most_a = reinterpret_cast<std::uint32_t*>(ws);
  std::uint32_t* const most_b = most_a + count * s.m * left.chunks();
  find_magnitudes(stream, count, left, most_a);
  find_magnitudes(stream, count, right, most_b);
  const ExactProduct kernel{.arithmetic = s.arithmetic,
                            .add = s.add,
                            .count = count,
                            .a = left,
                            .b = right,
                            .most_a = most_a,
                            .most_b = most_b,
                            .bias = bias,
                            .c = c,
                            .c_step = c_step,
                            .c_row = s.c_row,
                            .c_col = s.c_col};
  launch(stream, {.x = blocks_for<ExactProduct>(count * s.m * s.n)}, kernel);
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
