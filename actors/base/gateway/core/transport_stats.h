#pragma once
// The counters of a transport since it started.
#include <atomic>
#include <cstdint>

namespace es::actors {

struct TransportStats {
  std::uint64_t received = 0;           // frames passed to on_frame
  std::uint64_t sent = 0;               // frames passed to ZeroMQ
  std::uint64_t received_bytes = 0;     // bodies of these frames
  std::uint64_t sent_bytes = 0;         // bodies of these frames
  std::uint64_t queued_bytes = 0;       // bodies that ZeroMQ holds and has not sent yet
  std::uint64_t refused_malformed = 0;  // wrong number of parts, bad envelope or control frame
  std::uint64_t refused_oversize = 0;   // body or envelope over its limit, in or out
  std::uint64_t refused_stranger = 0;   // frames before the beat that names the sender
  std::uint64_t refused_identity = 0;   // a PeerId that belongs to another key or connection
  std::uint64_t refused_key = 0;        // CURVE keys that are not authorized
  std::uint64_t refused_handshake = 0;  // no CURVE, wrong server key, not ZeroMQ, too slow
  std::uint64_t refused_unread = 0;  // clients that were disconnected because they read too slowly
  std::uint64_t dropped_unreachable = 0;  // frames for a peer that is not connected
};

// The same counters while they change. The transport's threads write them; any thread may read
// them.
struct TransportCounters {
  std::atomic<std::uint64_t> received{0}, sent{0}, received_bytes{0}, sent_bytes{0},
      queued_bytes{0}, refused_malformed{0}, refused_oversize{0}, refused_stranger{0},
      refused_identity{0}, refused_key{0}, refused_handshake{0}, refused_unread{0},
      dropped_unreachable{0};

  TransportStats snapshot() const {
    return {.received = received,
            .sent = sent,
            .received_bytes = received_bytes,
            .sent_bytes = sent_bytes,
            .queued_bytes = queued_bytes,
            .refused_malformed = refused_malformed,
            .refused_oversize = refused_oversize,
            .refused_stranger = refused_stranger,
            .refused_identity = refused_identity,
            .refused_key = refused_key,
            .refused_handshake = refused_handshake,
            .refused_unread = refused_unread,
            .dropped_unreachable = dropped_unreachable};
  }
};

}  // namespace es::actors
