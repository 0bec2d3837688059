#pragma once
// BulkPull fetches bulk data from the memory of another host piece by piece. A message of any size
// can thus cross a network while no queue holds more than a window of pieces.
//
// It does no I/O: messages and pieces go in, requests and complete messages come out. The messages
// of one sender that have to be fetched are fetched one after the other. A message that needs no
// fetching is passed on at once, even before waiting ones; the worker core allows this. Not
// thread-safe.
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "actors/base/protocol/core/pieces.h"

namespace es::actors::worker {

// Bulk data of at most this size, in bytes, travels inside its message.
inline constexpr std::uint64_t kInlineBytesMax = std::uint64_t{8} << 20;

// Returns the bulk data of a message, in a fixed order.
std::vector<protocol::Bulk*> bulks_of(protocol::PeerMessage& message);
// Returns whether this bulk data, together, is small enough to travel inside its message.
bool travels_inline(const std::vector<protocol::Bulk*>& bulks);

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
    std::vector<protocol::PeerMessage> complete;  // for the core: all bulk data is inline or mapped
    bool progress = false;                        // requested bytes have arrived
  };

  Outcome add(protocol::PeerMessage message);
  // A piece has arrived from its owner. A piece that was not requested changes nothing.
  Outcome take(const protocol::Stamp& from, const std::string& segment, std::uint64_t offset,
               std::span<const std::byte> bytes);
  // Drops all messages of generations before this one.
  void abandon(Generation before);
  bool idle() const { return fetching_.empty(); }

 private:
  struct Fetching {
    protocol::PeerMessage message;
    // received bytes of the first bulk of the message that is still remote
    std::vector<std::byte> bytes;
    std::uint64_t asked = 0;  // number of requested bytes of this bulk
  };
  static protocol::Bulk* first_remote(protocol::PeerMessage& message);
  void ask(Fetching& fetching, Outcome& outcome);
  void advance(Incarnation sender, Outcome& outcome);

  std::map<Incarnation, std::deque<Fetching>> fetching_;  // by sender, without empty queues
};

}  // namespace es::actors::worker
