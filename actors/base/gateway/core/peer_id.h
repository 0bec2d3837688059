#pragma once
// PeerId: the routing id of a process: "head", "http", "node/NAME", "worker/INCARNATION" or
// "client/RANDOM".
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "proto/base/ids.h"

namespace es::actors {

using PeerId = std::string;

inline constexpr std::size_t kPeerIdBytesMax = 128;

inline const PeerId kHeadPeer = "head";
// The HTTP service of the head, which is in the same process.
inline const PeerId kHttpPeer = "http";
// The part of the head that writes the curves of jobs, in the same process.
inline const PeerId kJobLogPeer = "joblog";

inline PeerId node_peer(const std::string& name) {
  return "node/" + name;
}

inline PeerId worker_peer(Incarnation incarnation) {
  return "worker/" + std::to_string(incarnation.value);
}

inline bool is_client(std::string_view id) {
  return id.starts_with("client/");
}

// A valid id has 1 to kPeerIdBytesMax printable ASCII characters without spaces.
inline bool is_valid_peer_id(std::string_view id) {
  return !id.empty() && id.size() <= kPeerIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace es::actors
