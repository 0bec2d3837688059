#include "gpu/random/philox.h"

#include <doctest/doctest.h>

TEST_SUITE("gpu/random/philox") {
  using es::gpu::philox4x32;
  using es::gpu::PhiloxCounter;

  // Known answers published with Random123.
  TEST_CASE("the generator gives the published words for a counter and key of zeros") {
    const PhiloxCounter expected{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == expected);
  }

  TEST_CASE("the generator gives the published words for a counter and key of ones") {
    constexpr std::uint32_t kOnes = 0xffffffff;
    const PhiloxCounter expected{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    CHECK(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) == expected);
  }

  TEST_CASE("the generator gives the published words for the digits of pi") {
    const PhiloxCounter expected{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          expected);
  }

  TEST_CASE("uniform numbers reach both ends of [0, 1) and never 1") {
    CHECK(es::gpu::uniform01(0) == 0.0F);
    CHECK(es::gpu::uniform01(0xff) == 0.0F);
    CHECK(es::gpu::uniform01(0xffffffff) == 1.0F - 1.0F / 16777216.0F);
  }
}
