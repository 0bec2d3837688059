#pragma once
// BulkPull: gets, piece by piece, bulk data that lies in the memory of another host, so that a
// message of any size crosses a network while no queue holds more than a window of pieces.
//
// Pure: messages and pieces go in, requests and complete messages come out. Of each sender one
// message is fetched after the other; messages that need nothing pass at once, also past those that
// wait (the cores allow that). Not thread-safe.
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/protocol/messages.h"

namespace es::actors::worker {

// Bulk data up to this travels inside its message.
inline constexpr std::uint64_t kInlineBytesMax = std::uint64_t{8} << 20;
// One piece, and how many of them a receiver asks for at once.
inline constexpr std::uint32_t kPieceBytes = std::uint32_t{4} << 20;
inline constexpr std::uint32_t kPiecesInFlight = 4;

// The bulk data of a message, in a fixed order.
std::vector<protocol::Bulk*> bulks_of(protocol::PeerMessage& message);

class BulkPull {
 public:
  struct Request {
    Generation generation;
    Incarnation of;
    std::string segment;
    std::uint64_t offset = 0;
    std::uint32_t bytes = 0;
    bool operator==(const Request&) const = default;
  };
  struct Outcome {
    std::vector<Request> requests;                // to be sent
    std::vector<protocol::PeerMessage> complete;  // for the core; all bulk data is inline or mapped
    bool progress = false;                        // bytes that were asked for have come
  };

  Outcome add(protocol::PeerMessage message);
  // A piece came from its owner. One that was not asked for changes nothing.
  Outcome take(const protocol::Stamp& from, const std::string& segment, std::uint64_t offset,
               std::span<const std::byte> bytes);
  // Forgets all messages of generations before this one.
  void abandon(Generation before);
  bool idle() const { return fetching_.empty(); }

 private:
  struct Fetching {
    protocol::PeerMessage message;
    std::vector<std::byte> bytes;  // of the bulk that is being fetched: the first remote one
    std::uint64_t asked = 0;       // bytes of it that were asked for
  };
  static protocol::Bulk* first_remote(protocol::PeerMessage& message);
  void ask(Fetching& fetching, Outcome& outcome);
  void advance(Incarnation sender, Outcome& outcome);

  std::map<Incarnation, std::deque<Fetching>> fetching_;  // by sender; no empty queues
};

}  // namespace es::actors::worker
