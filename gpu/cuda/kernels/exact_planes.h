#pragma once
// The operands of exact products on tensor cores: integers as digits of 8 bits, and what a product
// does with the sums of digits at the end of a chunk.
//
// An integer of 15 bits and a sign has two digits, one of 22 bits three: q is the sum of
// digit s * 256^s. The highest digit has a sign, the others are in [0, 255]. All products of digits
// s and t belong to level s + t. In a chunk a level is at most 3 * 512 * 255^2 < 2^31.
//
// Digits are stored in the order in which shared memory has them, so a block copies whole runs:
// [product][panel of 64 rows][step of 64 k][digit][16 k][row of the panel][k]. What a row has of
// 16 k is a unit of 16 bytes; eight units of neighbouring rows are a core matrix of the tensor
// cores. Beyond the last k of a row are zeros; a panel's rows beyond the last row may be anything.
#include <type_traits>

#include "gpu/canonical/device_kernels.h"
#include "gpu/canonical/exact_math.h"
#include "gpu/cuda/kernels/divider.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {

inline constexpr int kUnit = 16, kPanelRows = 64, kStepDepth = 64, kStepUnits = kStepDepth / kUnit;
inline constexpr std::uint32_t kChunkSteps = kDotChunk / kStepDepth;
// Bytes of one digit of a panel in a step.
inline constexpr int kDigitBytes = kPanelRows * kStepDepth;

template <int kDigits>
struct Planes {
  static constexpr int kLevels = 2 * kDigits - 1;
  static constexpr int kStepBytes = kDigits * kDigitBytes;

  std::uint8_t* digits;  // aligned to 16 bytes
  float* scales;         // [product][chunk][row]
  std::uint32_t rows, panels, steps, chunks;

  // The kStepBytes bytes of a step of a panel.
  ES_HD std::uint8_t* at(std::uint32_t product, std::uint32_t panel, std::uint32_t step) const {
    return digits + ((std::int64_t{product} * panels + panel) * steps + step) * kStepBytes;
  }
  ES_HD float* chunk_scales(std::uint32_t product, std::uint32_t chunk) const {
    return scales + (std::int64_t{product} * chunks + chunk) * rows;
  }
  std::int64_t bytes(std::int64_t count) const { return count * panels * steps * kStepBytes; }
  std::int64_t scale_count(std::int64_t count) const { return count * chunks * rows; }
};

// Where the results go: C of all products.
struct ExactTarget {
  float* c;
  const float* bias;  // of each column, or nullptr
  std::int64_t step, row, col;
  bool add;  // to the contents of C
};

namespace {

// An array of such bytes in shared memory, of kRows rows.
template <int kDigits, int kRows>
using SharedDigits = std::uint8_t[kDigits][kStepUnits][kRows][kUnit];

template <int kDigits>
constexpr Arithmetic arithmetic_of_digits() {
  return kDigits == 2 ? Arithmetic::kX15 : Arithmetic::kX22;
}

template <int kDigits>
Planes<kDigits> planes(std::int64_t rows, std::int64_t depth) {
  return {nullptr,
          nullptr,
          static_cast<std::uint32_t>(rows),
          static_cast<std::uint32_t>(ceil_div(rows, kPanelRows)),
          static_cast<std::uint32_t>(ceil_div(depth, kStepDepth)),
          static_cast<std::uint32_t>(ceil_div(depth, kDotChunk))};
}

// A product on tensor cores.
template <int kDigits>
struct PlaneProduct {
  using Operand = Planes<kDigits>;
  static constexpr int kLevels = Operand::kLevels;

  Operand a, b;
  ExactTarget target;
  Divider tiles_down, tiles_across;

  struct Tile {
    std::uint32_t down, across, product;
  };
  ES_HD Tile tile(std::uint32_t block) const {
    // Consecutive blocks differ in their row first, so blocks that run together share columns of B.
    const Divider::Parts down = tiles_down(block), across = tiles_across(down.quotient);
    return {down.rest, across.rest, across.quotient};
  }
  ES_HD std::uint32_t chunk_end(std::uint32_t chunk) const {
    const std::uint32_t end = (chunk + 1) * kChunkSteps;
    return end < a.steps ? end : a.steps;
  }

  // Adds the result of a chunk to C.
  ES_HD void write(std::uint32_t product, std::uint32_t row, std::uint32_t col, std::uint32_t chunk,
                   const std::int32_t (&level)[kLevels]) const {
    if (row >= a.rows || col >= b.rows) return;
    std::int64_t sum = level[kLevels - 1];
    ES_UNROLL
    for (int l = kLevels - 2; l >= 0; --l) sum = sum * 256 + level[l];
    const float chunk_result =
        exact_result(static_cast<float>(sum), a.chunk_scales(product, chunk)[row],
                     b.chunk_scales(product, chunk)[col]);
    float& c = target.c[product * target.step + row * target.row + col * target.col];
    float result = (chunk == 0 && !target.add ? 0.0f : c) + chunk_result;
    if (chunk + 1 == a.chunks) {
      result = with_one_nan(result);
      if (target.bias != nullptr) result = result + target.bias[col];
    }
    c = result;
  }
};

// Calls call(signed_a, signed_b) with constants: whether digit s of A and digit t of B have signs.
template <int kDigits, class Call>
ES_HD inline void with_signs(int s, int t, const Call& call) {
  const bool a = s + 1 == kDigits, b = t + 1 == kDigits;
  if (a && b) return call(std::true_type(), std::true_type());
  if (a) return call(std::true_type(), std::false_type());
  if (b) return call(std::false_type(), std::true_type());
  call(std::false_type(), std::false_type());
}

template <class Kernel, int kDigits>
void launch_tiles(Stream stream, std::int64_t count, const Planes<kDigits>& a,
                  const Planes<kDigits>& b, const ExactTarget& target) {
  const std::int64_t down = ceil_div(a.rows, Kernel::kRows),
                     across = ceil_div(b.rows, Kernel::kCols);
  launch(stream, {.x = down * across * count},
         Kernel{{a, b, target, Divider(down), Divider(across)}});
}

}  // namespace

// exact_tiles.cu and exact_groups.cu: with mma.sync, and with wgmma.
template <int kDigits>
void multiply_planes_in_tiles(Stream stream, std::int64_t count, const Planes<kDigits>& a,
                              const Planes<kDigits>& b, const ExactTarget& target);
template <int kDigits>
void multiply_planes_in_groups(Stream stream, std::int64_t count, const Planes<kDigits>& a,
                               const Planes<kDigits>& b, const ExactTarget& target);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
