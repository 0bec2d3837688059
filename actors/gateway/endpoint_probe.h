#pragma once
// EndpointProbe: who, if anybody, listens at an endpoint. For people whose link does not come up:
// ZeroMQ says that it failed, not why. Looks from outside, by a connection of its own that says no
// more than a ZeroMQ greeting; an easyscaled takes it for a handshake that failed, and logs a line.
#include <chrono>
#include <string>

#include "actors/gateway/endpoint.h"

namespace es::actors {

enum class Listener {
  kNone,         // the connection is refused; of ipc: no such socket, or nobody behind it
  kNoAccess,     // ipc: we may not use the socket
  kUnknownHost,  // the host's name cannot be resolved
  kNoRoute,      // no way to that host
  kNoHost,       // no answer to the attempt to connect
  kSilent,       // takes connections, says nothing
  kOther,        // does not speak ZeroMQ
  kOpen,         // speaks ZeroMQ without keys
  kSecure,       // speaks ZeroMQ with CURVE keys
};

struct EndpointProbe {
  Listener listener = Listener::kNone;
  std::string reason;  // the system's words, where it has some
};

// Blocks for `patience` at most, twice that where whoever listens is silent, and for as long as the
// system takes to resolve a host's name.
EndpointProbe probe_endpoint(const Endpoint& endpoint, std::chrono::milliseconds patience);

}  // namespace es::actors
