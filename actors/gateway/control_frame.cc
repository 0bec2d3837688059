#include "actors/gateway/control_frame.h"

#include <string_view>

namespace es::actors {
namespace {

constexpr std::string_view kMagic(kControlMagic);
constexpr std::size_t kHeaderBytes = kMagic.size() + 2;

}  // namespace

std::string encode_control(const ControlFrame& frame) {
  std::string bytes(kMagic);
  bytes.push_back(static_cast<char>(kControlVersion));
  bytes.push_back(static_cast<char>(frame.kind));
  return bytes + frame.from;
}

std::optional<ControlFrame> decode_control(const void* bytes, std::size_t size) {
  const std::string_view text(static_cast<const char*>(bytes), size);
  if (size <= kHeaderBytes || !text.starts_with(kMagic)) return std::nullopt;
  if (static_cast<std::uint8_t>(text[kMagic.size()]) != kControlVersion) return std::nullopt;
  const auto kind = static_cast<ControlKind>(text[kMagic.size() + 1]);
  if (kind != ControlKind::kBeat && kind != ControlKind::kBye) return std::nullopt;
  const std::string_view from = text.substr(kHeaderBytes);
  if (!is_valid_peer_id(from)) return std::nullopt;
  return ControlFrame{.kind = kind, .from = PeerId(from)};
}

}  // namespace es::actors
