// bf16 numbers: the rounding in all kernel classes.
#include "gpu/canonical/bf16.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

#include "tests/gpu/canonical/kernel_testing.h"
#include "tests/support/seed.h"

namespace es::gpu::testing {
namespace {

float from_word(std::uint32_t word) {
  return std::bit_cast<float>(word);
}

// The nearer one of the two bf16 numbers around a finite x, by their exact distances; the one whose
// last bit is 0 if they are equally far.
std::uint32_t nearest(float x) {
  const auto word = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t below = word & 0xffff0000u, above = below + 0x10000u;
  if ((above & 0x7fffffffu) == 0x7f800000u) return below;  // not infinite
  const double to_below = std::abs(double{x} - double{from_word(below)});
  const double to_above = std::abs(double{from_word(above)} - double{x});
  if (to_below != to_above) return to_below < to_above ? below : above;
  return (below & 0x10000u) == 0 ? below : above;
}

TEST_SUITE("gpu/canonical/bf16") {
  TEST_CASE("every upper half with every kind of lower half is rounded to the nearest number") {
    std::vector<float> x;
    for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
      for (const std::uint32_t lower : {0x0u, 0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
        x.push_back(from_word(upper << 16 | lower));
    x.push_back(1.0f);  // so that no class has whole vectors only
    for (const CpuClass cpu_class : supported_cpu_classes()) {
      CAPTURE(int(cpu_class));
      const KernelTable& t = kernel_table(cpu_class);
      std::vector<Bf16> numbers(x.size());
      std::vector<float> again(x.size());
      const auto n = static_cast<std::int64_t>(x.size());
      t.narrow(n, x.data(), numbers.data());
      t.widen(n, numbers.data(), again.data());
      const ChainStage stage{.kind = ChainKind::kRoundBf16};
      std::vector<float> in_chain(x.size());
      t.chain(0, n, x.data(), &stage, 1, {}, in_chain.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto word = std::bit_cast<std::uint32_t>(again[i]);
        const auto chained = std::bit_cast<std::uint32_t>(in_chain[i]);
        std::uint32_t expected = kQuietNanBits;
        if (std::isinf(x[i])) expected = std::bit_cast<std::uint32_t>(x[i]);
        if (std::isfinite(x[i])) expected = nearest(x[i]);
        wrong += word != expected || chained != expected || numbers[i] != expected >> 16;
      }
      CHECK(wrong == 0);
    }
  }

  TEST_CASE("numbers at the ends of the range") {
    const auto rounded = [](std::uint32_t word) {
      return std::bit_cast<std::uint32_t>(rounded_to_bf16(from_word(word)));
    };
    CHECK(rounded(0x3f808000) == 0x3f800000);  // a tie, to even
    CHECK(rounded(0x3f818000) == 0x3f820000);
    CHECK(rounded(0x00000001) == 0x00000000);  // the smallest subnormal number
    CHECK(rounded(0x80000001) == 0x80000000);
    CHECK(rounded(0x00008001) == 0x00010000);  // a subnormal number stays one
    CHECK(rounded(0x7f7fffff) == 0x7f7f0000);  // the largest number stays finite
    CHECK(rounded(0xff7fffff) == 0xff7f0000);
    CHECK(rounded(0x7f800000) == 0x7f800000);
    CHECK(rounded(0xff800000) == 0xff800000);
    CHECK(std::isnan(rounded_to_bf16(from_word(0x7f800001))));
    CHECK(std::isnan(rounded_to_bf16(from_word(0xffffffff))));
  }
}

}  // namespace
}  // namespace es::gpu::testing
