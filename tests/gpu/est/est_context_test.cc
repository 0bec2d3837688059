#include "gpu/est/est_context.h"

#include <doctest/doctest.h>

#include <bit>
#include <limits>

TEST_SUITE("gpu/est/est_context") {
  using namespace es::gpu;

  EstContext example() {
    return {.rank = 3,
            .version = 0x1122334455667788,
            .cursor = {5, 17},
            .stats = {0.5F, -0.0F, std::numeric_limits<float>::denorm_min()}};
  }

  TEST_CASE("a context is unchanged after encoding and decoding") {
    const EstContext context = example();
    const auto bytes = encode(context);
    const auto decoded = decode_context(bytes, 3);
    REQUIRE(decoded.ok());
    CHECK(*decoded == context);
    CHECK(encode(*decoded) == bytes);
  }

  TEST_CASE("contexts are equal if their bits are") {
    EstContext context = example(), other = example();
    // The bits of the integer -1 are those of a NaN, which is not equal to itself.
    for (EstContext* c : {&context, &other}) c->stats[0] = std::bit_cast<float>(-1);
    CHECK(context == other);
    CHECK(*decode_context(encode(context), 3) == context);
    other.stats[1] = 0.0F;
    CHECK_FALSE(context == other);
    other = context;
    other.cursor.step = 18;
    CHECK_FALSE(context == other);
  }

  TEST_CASE("the encoding is little endian with a fixed header") {
    const auto bytes = encode(example());
    REQUIRE(bytes.size() == 40 + 3 * 4);
    CHECK(bytes[0] == std::byte{'E'});
    CHECK(bytes[3] == std::byte{'X'});
    CHECK(bytes[8] == std::byte{3});
    CHECK(bytes[16] == std::byte{0x88});
    CHECK(bytes[23] == std::byte{0x11});
  }

  TEST_CASE("damaged contexts are refused with the field that is wrong") {
    const auto error = [](std::vector<std::byte> bytes, std::int64_t floats) {
      const auto decoded = decode_context(bytes, floats);
      return decoded.ok() ? std::string("accepted") : decoded.error().message;
    };
    auto bytes = encode(example());
    CHECK(error({}, 3).find("length") != std::string::npos);
    CHECK(error(bytes, 4).find("length") != std::string::npos);
    auto wrong = bytes;
    wrong[0] = std::byte{'Z'};
    CHECK(error(wrong, 3).find("magic") != std::string::npos);
    wrong = bytes;
    wrong[4] = std::byte{9};
    CHECK(error(wrong, 3).find("format") != std::string::npos);
    wrong = bytes;
    wrong[12] = std::byte{4};
    CHECK(error(wrong, 3).find("count") != std::string::npos);
  }

  TEST_CASE("a cursor passes every step of an epoch, then begins the next epoch") {
    SamplerCursor cursor{2, 0};
    cursor = advance(cursor, 2);
    CHECK(cursor == SamplerCursor{2, 1});
    cursor = advance(cursor, 2);
    CHECK(cursor == SamplerCursor{3, 0});
  }
}
