#pragma once
// Large data crosses a network in pieces that the receiver requests: gradients of a worker on
// another host, and saved states on another node's disk. No queue ever holds more than a window.
#include <cstdint>

namespace es::actors {

// The size of a piece in bytes, and the number of pieces that a receiver requests at once.
inline constexpr std::uint32_t kPieceBytes = std::uint32_t{4} << 20;
inline constexpr std::uint32_t kPiecesInFlight = 4;

}  // namespace es::actors
