#include "actors/base/gateway/core/control_frame.h"

#include <string_view>

#include "proto/message_type.h"

namespace es::actors {
namespace {

constexpr std::string_view kMagic(kControlMagic);
constexpr std::size_t kVersionsBytes = kMagic.size() + 3;
constexpr std::size_t kHeaderBytes = kVersionsBytes + 1;

// The fixed bytes at the beginning of every control frame since version 2.
std::string versions() {
  return std::string(kMagic) + static_cast<char>(kControlVersion) +
         static_cast<char>(kProtocolVersion & 0xff) + static_cast<char>(kProtocolVersion >> 8);
}

}  // namespace

std::string encode_control(const ControlFrame& frame) {
  std::string bytes = versions();
  bytes.push_back(static_cast<char>(frame.kind));
  return bytes + frame.from;
}

std::optional<ControlFrame> decode_control(const void* bytes, std::size_t size) {
  const std::string_view text(static_cast<const char*>(bytes), size);
  // A frame of another version is not read further, because only the bytes that name the versions
  // have a fixed form.
  if (size <= kHeaderBytes || !text.starts_with(versions())) return std::nullopt;
  const auto kind = static_cast<ControlKind>(text[kVersionsBytes]);
  if (kind != ControlKind::kBeat && kind != ControlKind::kBye) return std::nullopt;
  const std::string_view from = text.substr(kHeaderBytes);
  if (!is_valid_peer_id(from)) return std::nullopt;
  return ControlFrame{.kind = kind, .from = PeerId(from)};
}

std::optional<std::uint16_t> foreign_protocol(const void* bytes, std::size_t size) {
  const std::string_view text(static_cast<const char*>(bytes), size);
  if (size <= kVersionsBytes || !text.starts_with(kMagic) || text.starts_with(versions()))
    return std::nullopt;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (byte(kMagic.size()) < 2) return std::nullopt;  // version 1 did not contain it
  return static_cast<std::uint16_t>(byte(kMagic.size() + 1) | byte(kMagic.size() + 2) << 8);
}

}  // namespace es::actors
