#include "actors/worker/core/transport.h"

#include <algorithm>

namespace es::actors::worker {

Transport host_transport(const PeerDevice& a, const PeerDevice& b) {
  return a.host_id == b.host_id ? Transport::kSharedMemory : Transport::kMessages;
}

Transport best_transport(const PeerDevice& a, const PeerDevice& b) {
  // Two workers that share one GPU have no channel between them.
  const bool joined = !a.channel.kind.empty() && a.channel.kind == b.channel.kind &&
                      a.channel.device != b.channel.device;
  return joined ? Transport::kChannel : host_transport(a, b);
}

TransportChoice choose_transport(const PeerDevice& self, const PeerDevice& peer, Incarnation to,
                                 protocol::PeerMessage& message, ChannelBook& book) {
  TransportChoice choice{.transport = host_transport(self, peer)};
  if (best_transport(self, peer) == Transport::kChannel) {
    const ChannelBook::Use use = book.use(to);
    choice.offer_channel = use == ChannelBook::Use::kOffer;
    // A State has several bulks, and the inbox of a channel matches exactly one bulk to each
    // message (channel_book.h).
    if (use == ChannelBook::Use::kNow && carries_gradient(message))
      choice.transport = Transport::kChannel;
  }
  // A channel reads device memory. Any other way reads the segment in host memory, so the bytes
  // must be copied there first.
  choice.copy_out_first = choice.transport != Transport::kChannel && on_device_alone(message);
  return choice;
}

bool needs_host_copies(const PeerDevice& self, Incarnation self_id,
                       const std::vector<protocol::Member>& members, const ChannelBook& book) {
  return std::any_of(members.begin(), members.end(), [&](const protocol::Member& member) {
    return member.incarnation != self_id &&
           (best_transport(self, {member.host_id, member.channel}) != Transport::kChannel ||
            !book.is_open(member.incarnation));
  });
}

}  // namespace es::actors::worker
