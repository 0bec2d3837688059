#include "actors/gateway/control_frame.h"

#include <doctest/doctest.h>

#include <string>

namespace es::actors {
namespace {

std::optional<ControlFrame> decoded(const std::string& bytes) {
  return decode_control(bytes.data(), bytes.size());
}

TEST_SUITE("actors/gateway/control_frame") {
  TEST_CASE("what is encoded is decoded") {
    for (const ControlKind kind : {ControlKind::kBeat, ControlKind::kBye}) {
      const ControlFrame frame{.kind = kind, .from = "node/a"};
      CHECK(decoded(encode_control(frame)) == frame);
    }
  }

  TEST_CASE("the bytes are the documented ones") {
    CHECK(encode_control({.kind = ControlKind::kBeat, .from = "head"}) ==
          "ESGW\x01"
          "Bhead");
  }

  TEST_CASE("other bytes are refused") {
    const std::string good = encode_control({.kind = ControlKind::kBeat, .from = "head"});
    CHECK_FALSE(decoded("").has_value());
    for (std::size_t size = 0; size <= 6; ++size)
      CHECK_FALSE(decoded(good.substr(0, size)).has_value());
    for (std::size_t i = 0; i < 6; ++i) {  // magic, version and kind
      std::string bad = good;
      bad[i] ^= 1;
      CHECK_FALSE(decoded(bad).has_value());
    }
    CHECK_FALSE(decoded(good + " ").has_value());
    CHECK_FALSE(decoded(good + std::string(1, '\0')).has_value());
    CHECK_FALSE(decoded(good + std::string(kPeerIdBytesMax, 'x')).has_value());
  }
}

}  // namespace
}  // namespace es::actors
