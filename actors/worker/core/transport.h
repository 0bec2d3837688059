#pragma once
// Decides how bulk data gets from one worker to another. Pure functions.
#include <string>

#include "actors/protocol/core/messages.h"

namespace es::actors::worker {

enum class Transport {
  kChannel,       // from device to device (gpu/cuda/channel.h)
  kSharedMemory,  // the receiver maps the sender's segment
  kMessages,      // inside a message, or in pieces on request if it is large
};

// The properties of a worker that decide how others reach it.
struct Place {
  std::string host_id;
  protocol::ChannelPoint channel;
};

// The transport through host memory.
inline Transport host_transport(const std::string& host_id_a, const std::string& host_id_b) {
  return host_id_a == host_id_b ? Transport::kSharedMemory : Transport::kMessages;
}

// The best transport between two workers; it is the same in both directions. Two workers on one
// physical device have no channel, because NCCL connects devices, not processes.
inline Transport transport_between(const Place& a, const Place& b) {
  const bool joined = !a.channel.kind.empty() && a.channel.kind == b.channel.kind &&
                      a.channel.device != b.channel.device;
  if (joined) return Transport::kChannel;
  return host_transport(a.host_id, b.host_id);
}

}  // namespace es::actors::worker
