#include "actors/base/gateway/core/control_frame.h"

#include <doctest/doctest.h>

#include <string>

#include "proto/message_type.h"

namespace es::actors {
namespace {

std::optional<ControlFrame> decoded(const std::string& bytes) {
  return decode_control(bytes.data(), bytes.size());
}

TEST_SUITE("actors/base/gateway/control_frame") {
  TEST_CASE("a frame that is encoded decodes to the same values") {
    for (const ControlKind kind : {ControlKind::kBeat, ControlKind::kBye}) {
      const ControlFrame frame{.kind = kind, .from = "node/a"};
      CHECK(decoded(encode_control(frame)) == frame);
    }
  }

  TEST_CASE("the bytes are the documented ones") {
    CHECK(encode_control({.kind = ControlKind::kBeat, .from = "head"}) ==
          std::string("ESGW\x02") + static_cast<char>(kProtocolVersion) + '\0' + "Bhead");
  }

  TEST_CASE("a frame of another version tells which protocol its sender speaks") {
    const std::string ours = encode_control({.kind = ControlKind::kBeat, .from = "head"});
    const auto foreign = [](const std::string& bytes) {
      return foreign_protocol(bytes.data(), bytes.size());
    };
    CHECK_FALSE(foreign(ours).has_value());
    std::string later = ours;
    later[5] = '\x34', later[6] = '\x12';
    CHECK(foreign(later) == 0x1234);
    CHECK_FALSE(decoded(later).has_value());
    later[4] = 7;  // A later format, with any bytes after the known ones.
    CHECK(foreign(later.substr(0, 8)) == 0x1234);
    later[4] = 1;  // The first format did not have this field.
    CHECK_FALSE(foreign(later).has_value());
    CHECK_FALSE(foreign("ESGW\x07").has_value());
    CHECK_FALSE(foreign("GET / HTTP/1.0").has_value());
  }

  TEST_CASE("other bytes are refused") {
    const std::string good = encode_control({.kind = ControlKind::kBeat, .from = "head"});
    CHECK_FALSE(decoded("").has_value());
    for (std::size_t size = 0; size <= 8; ++size)
      CHECK_FALSE(decoded(good.substr(0, size)).has_value());
    for (std::size_t i = 0; i < 8; ++i) {  // Magic number, versions and kind.
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
