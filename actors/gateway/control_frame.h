#pragma once
// The gateway's own message between two transports: proof of life, and goodbye. It is one ZeroMQ
// frame (a message of the vocabulary is two, proto/frame.h), and no actor ever sees it.
//
//   offset 0  4 bytes  "ESGW"
//          4  1 byte   version of this format, kControlVersion
//          5  2 bytes  version of the messages, kProtocolVersion, little endian
//          7  1 byte   kind: 'B' beat, 'Q' bye
//          8  n bytes  PeerId of the sender, to the end of the frame
//
// The first 7 bytes stay as they are in all later versions, so that two programs of different
// releases can tell people which versions they speak.
//
// A beat is the first message of every connection, in both directions: it says who speaks. After
// that it is sent when nothing else was. A bye ends the connection; what follows it is refused. A
// beat of another version is answered by a bye of our own.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "actors/gateway/peer_id.h"

namespace es::actors {

inline constexpr char kControlMagic[] = "ESGW";
inline constexpr std::uint8_t kControlVersion = 2;

enum class ControlKind : std::uint8_t { kBeat = 'B', kBye = 'Q' };

struct ControlFrame {
  ControlKind kind = ControlKind::kBeat;
  PeerId from;
  bool operator==(const ControlFrame&) const = default;
};

std::string encode_control(const ControlFrame& frame);

// Empty when the bytes are not a control frame of these versions with a valid PeerId.
std::optional<ControlFrame> decode_control(const void* bytes, std::size_t size);

// The protocol version of a control frame whose versions are not both ours; else empty.
std::optional<std::uint16_t> foreign_protocol(const void* bytes, std::size_t size);

}  // namespace es::actors
