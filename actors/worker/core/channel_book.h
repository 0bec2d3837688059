#pragma once
// ChannelBook decides which messages of a worker send their bulk data through a channel.
// ChannelInbox holds the messages at the receiver until their bytes have arrived.
//
// A channel belongs to one generation and carries data in one direction. The sender offers it with
// the first data for a peer, and uses it as soon as both ends are connected. Until then data goes
// through host memory. So no worker waits for a channel, and a channel that cannot be made costs
// nothing.
//
// Every message whose data travels by channel has a transfer number. A missing number means that a
// message was lost, so the bytes in the channel can no longer be matched to messages. The channel
// then counts as broken.
//
// A broken channel loses data that was announced. The worker treats it like a broken link to that
// peer (worker_core.h), which causes a round. If the break was not itself caused by a round, this
// worker does not use a channel to that peer any more, so a device that cannot run channels does
// not stop a job.
//
// Both classes are free of I/O and not thread-safe.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/core/messages.h"

namespace es::actors::worker {

class ChannelBook {
 public:
  explicit ChannelBook(std::size_t channels_max) : channels_max_(channels_max) {}

  enum class Use {
    kNo,
    kOffer,  // not now; the caller has to offer a channel to the peer
    kNow,
  };
  // Says how data for this peer is sent now. REQUIRES: best_transport() returned kChannel.
  Use use(Incarnation to);
  // Returns whether use(to) would return kNow. It changes nothing.
  bool is_open(Incarnation to) const;
  // Returns the number of the transfer that begins now. REQUIRES: use(to) has just returned kNow.
  std::uint64_t announce(Incarnation to);

  // Both ends are connected.
  void ready(Incarnation to);
  // Records that the channel is broken. Returns whether announced data may be lost.
  bool broken(Incarnation to, Instant now);
  // Call it periodically. A break that no round has followed within kRoundFollows was caused by the
  // channel itself, so the peer gets no channel any more.
  void tick(Instant now);
  // A new generation begins.
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

// If a round caused a break, this worker learns of the round within this time, because the head
// informs all workers at once.
inline constexpr Instant kRoundFollows = std::chrono::seconds(1);

class ChannelInbox {
 public:
  // What to do for a message. `receive` is the number of bytes to request from the channel, if any.
  struct Arrival {
    std::optional<std::uint64_t> receive;
    bool lost = false;  // its bytes will not arrive; reported only once
  };
  // REQUIRES: the bulk data of the message travels by channel (Bulk::transfer), and the message has
  // exactly one bulk, as Contrib and Reduced do.
  Arrival add(protocol::PeerMessage message);
  // The bytes of the oldest waiting message of this sender have arrived. Returns the complete
  // message.
  std::optional<protocol::PeerMessage> take(Incarnation from, protocol::Arrived bytes);
  // The channel of this sender is broken. Returns whether announced data is lost and has not been
  // reported yet. Messages with data for this channel that arrive later are lost too; add() reports
  // them.
  bool broken(Incarnation from);
  void abandon();  // a new generation begins

 private:
  struct Incoming {
    std::uint64_t announced = 0;
    bool broken = false, loss_reported = false;
    std::deque<protocol::PeerMessage> waiting;
  };
  std::map<Incarnation, Incoming> incoming_;
};

// Returns whether the bulk data of the message may travel by channel: it is one gradient or sum.
bool carries_gradient(const protocol::PeerMessage& message);
// Returns whether some of its bulk data is only in the memory of this worker's GPU.
bool on_device_alone(protocol::PeerMessage& message);
// The bulk data of a message that travels by channel, or nullptr.
protocol::Bulk* channel_bulk(protocol::PeerMessage& message);

}  // namespace es::actors::worker
