#include "proto/base/philox.h"

#include <doctest/doctest.h>

using namespace es;

namespace {

using Words = std::array<std::uint32_t, 4>;

}  // namespace

TEST_SUITE("proto/base/philox") {
  TEST_CASE("gives the known answers of Random123") {
    CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
          Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    constexpr std::uint32_t kOnes = 0xffffffff;
    CHECK(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
          Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(
        philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  }

  TEST_CASE("a uniform float is a multiple of 2^-24 in [0, 1)") {
    CHECK(uniform_float(0) == 0.0f);
    CHECK(uniform_float(0xff) == 0.0f);
    CHECK(uniform_float(0x100) == 0x1p-24f);
    CHECK(uniform_float(0xffffffff) == 1.0f - 0x1p-24f);
  }

  TEST_CASE("the key of a seed holds all its bits") {
    CHECK(philox_key(0x0123456789abcdef) == PhiloxKey{0x89abcdef, 0x01234567});
  }
}
