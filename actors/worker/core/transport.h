#pragma once
// Decides how bulk data gets from one worker to another. The functions are pure, apart from what
// the channel book records.
#include <string>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "actors/worker/core/channel_book.h"

namespace es::actors::worker {

enum class Transport {
  kChannel,       // from device to device (gpu/cuda/channel.h)
  kSharedMemory,  // the receiver maps the sender's segment
  kMessages,      // inside a message, or in pieces on request if it is large
};

// The properties of a worker that decide how others reach it.
struct PeerDevice {
  std::string host_id;
  protocol::ChannelPoint channel;
};

// The transport through host memory.
Transport host_transport(const PeerDevice& a, const PeerDevice& b);

// The best transport between two workers; it is the same in both directions. Two workers on one
// physical device have no channel, because NCCL connects devices, not processes.
Transport best_transport(const PeerDevice& a, const PeerDevice& b);

struct TransportChoice {
  Transport transport = Transport::kSharedMemory;
  // A channel has to be offered to the peer; this message does not use it.
  bool offer_channel = false;
  // Some bulk data is only in device memory and must be copied to its segment before the message
  // can be sent. The choice is then made anew.
  bool copy_out_first = false;
};

// Chooses how the bulk data of `message` travels from worker `self` to worker `to` with device
// `peer`. The first message to a peer makes this worker offer a channel, which `book` records.
// Until the channel is open, gradients go through host memory like all other data.
TransportChoice choose_transport(const PeerDevice& self, const PeerDevice& peer, Incarnation to,
                                 protocol::PeerMessage& message, ChannelBook& book);

// Returns whether some member other than `self_id` will get gradients through host memory, as far
// as this is known now. This is a prediction: channels may open or break before the data is sent.
// Data that is then missing in host memory is copied out before it is sent (copy_out_first).
bool needs_host_copies(const PeerDevice& self, Incarnation self_id,
                       const std::vector<protocol::Member>& members, const ChannelBook& book);

}  // namespace es::actors::worker
