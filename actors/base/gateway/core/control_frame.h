#pragma once
// The gateway's own messages between two transports: a proof of life and a goodbye. Such a message
// is one ZeroMQ frame, whereas a message of the protocol has two (proto/frame.h). No actor sees it.
//
//   offset 0  4 bytes  "ESGW"
//          4  1 byte   version of this format, kControlVersion
//          5  2 bytes  version of the messages, kProtocolVersion, little endian
//          7  1 byte   kind: 'B' beat, 'Q' bye
//          8  n bytes  PeerId of the sender, to the end of the frame
//
// The first 7 bytes keep their form in all later versions, so that two programs of different
// releases can tell their users which versions they speak.
//
// A beat is the first message of every connection, in both directions; it names the sender. After
// that, it is sent when no other message was sent for a while. A bye ends the connection, and
// messages after it are refused. A beat of another version is answered with a bye of this version.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "actors/base/gateway/core/peer_id.h"

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

// Returns no value if the bytes are not a control frame of these versions with a valid PeerId.
std::optional<ControlFrame> decode_control(const void* bytes, std::size_t size);

// Returns the protocol version of a control frame in which one of the two versions differs from
// that of this program; otherwise no value.
std::optional<std::uint16_t> foreign_protocol(const void* bytes, std::size_t size);

}  // namespace es::actors
