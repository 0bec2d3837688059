#pragma once
// ChannelBook: which messages of a worker send their bulk data through a channel, and which do not
// yet or no more. ChannelInbox: the other end's messages, until their bytes have come.
//
// A channel belongs to one generation and carries one way. The sender offers it with the first data
// for a peer, and uses it when both ends have met; what goes before then goes through host memory.
// So nobody waits for a channel, and one that cannot be made costs nothing.
//
// Every message whose data comes by channel has the number of its transfer. When a number is
// missing, a message was lost on the way, and no byte of the channel can be trusted to be whose it
// seems: it counts as broken.
//
// A broken channel loses data that was announced; the worker takes it as a broken link to that peer
// (worker_core.h), which begins a round. When it was not broken by a round that had begun already,
// this worker sends that peer nothing by channel any more, so a device that cannot do it stops no
// job.
//
// Pure; not thread-safe.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "actors/protocol/instant.h"
#include "actors/protocol/messages.h"

namespace es::actors::worker {

class ChannelBook {
 public:
  explicit ChannelBook(std::size_t channels_max) : channels_max_(channels_max) {}

  enum class Use {
    kNo,
    kOffer,  // not now; the caller offers a channel to the peer
    kNow,
  };
  // Data is to go to this peer, and transport_between() says kChannel.
  Use use(Incarnation to);
  // Whether use(to) would say kNow; changes nothing.
  bool is_open(Incarnation to) const;
  // The number of the transfer that begins now. REQUIRES: use(to) has just said kNow.
  std::uint64_t announce(Incarnation to);

  // Both ends have met.
  void ready(Incarnation to);
  // Whether something that was announced may be lost.
  bool broken(Incarnation to, Instant now);
  // A breach that no round has followed at once is the channel's own.
  void tick(Instant now);
  // A new generation.
  void abandon();

 private:
  struct Outgoing {
    bool ready = false;
    std::uint64_t announced = 0;
    std::optional<Instant> broken{};
  };
  std::size_t channels_max_;
  std::map<Incarnation, Outgoing> outgoing_;
  std::set<Incarnation> avoided_;
};

// How long after a breach a round that caused it is heard of: the head tells all workers at once.
inline constexpr Instant kRoundFollows = std::chrono::seconds(1);

class ChannelInbox {
 public:
  // What came with a message: its bytes are asked for (their number), or nothing.
  struct Arrival {
    std::optional<std::uint64_t> receive;
    bool lost = false;  // its bytes will not come; said once
  };
  // REQUIRES: its bulk data comes by channel (Bulk::transfer); one bulk, as Contrib and Reduced
  // have.
  Arrival add(protocol::PeerMessage message);
  // The bytes of the oldest message of this sender: the message, whole.
  std::optional<protocol::PeerMessage> take(Incarnation from, protocol::Arrived bytes);
  // The channel of this sender is broken. Whether something that it announced is lost; what it has
  // announced and has not come here yet will be.
  bool broken(Incarnation from);
  void abandon();  // a new generation

 private:
  struct Incoming {
    std::uint64_t announced = 0;
    bool broken = false, told = false;
    std::deque<protocol::PeerMessage> waiting;
  };
  std::map<Incarnation, Incoming> incoming_;
};

// Whether its bulk data may go by channel: one gradient, or sum of gradients.
bool carries_gradient(const protocol::PeerMessage& message);
// Whether some of its bulk data is in the memory of this worker's GPU and nowhere else.
bool on_device_alone(protocol::PeerMessage& message);
// The bulk data of a message that comes by channel; nullptr: none does.
protocol::Bulk* channel_bulk(protocol::PeerMessage& message);

}  // namespace es::actors::worker
