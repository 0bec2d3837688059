#pragma once
// The gateway's own message between two transports: proof of life, and goodbye. It is one ZeroMQ
// frame (a message of the vocabulary is two, proto/frame.h), and no actor ever sees it.
//
//   offset 0  4 bytes  "ESGW"
//          4  1 byte   version, kControlVersion
//          5  1 byte   kind: 'B' beat, 'Q' bye
//          6  n bytes  PeerId of the sender, to the end of the frame
//
// A beat is the first message of every connection, in both directions: it says who speaks. After
// that it is sent when nothing else was. A bye ends the connection; what follows it is refused.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "actors/gateway/peer_id.h"

namespace es::actors {

inline constexpr char kControlMagic[] = "ESGW";
inline constexpr std::uint8_t kControlVersion = 1;

enum class ControlKind : std::uint8_t { kBeat = 'B', kBye = 'Q' };

struct ControlFrame {
  ControlKind kind = ControlKind::kBeat;
  PeerId from;
  bool operator==(const ControlFrame&) const = default;
};

std::string encode_control(const ControlFrame& frame);

// Empty when the bytes are not a control frame of this version with a valid PeerId.
std::optional<ControlFrame> decode_control(const void* bytes, std::size_t size);

}  // namespace es::actors
