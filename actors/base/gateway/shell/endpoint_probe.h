#pragma once
// EndpointProbe finds out what kind of process, if any, listens at an endpoint. It serves users
// whose link is not established, because ZeroMQ reports only that it failed. It opens a connection
// of its own and sends no more than a ZeroMQ greeting; an easyscaled treats this as a failed
// handshake and logs a line.
#include <chrono>
#include <string>

#include "actors/base/gateway/core/endpoint.h"

namespace es::actors {

enum class Listener {
  kNone,         // the connection is refused; ipc: there is no socket, or no process listens
  kNoAccess,     // ipc: this user may not use the socket
  kUnknownHost,  // the host name cannot be resolved
  kNoRoute,      // there is no route to the host
  kNoHost,       // the attempt to connect is not answered
  kSilent,       // accepts connections but sends nothing
  kOther,        // does not speak ZeroMQ
  kOpen,         // speaks ZeroMQ without keys
  kSecure,       // speaks ZeroMQ with CURVE keys
};

struct EndpointProbe {
  Listener listener = Listener::kNone;
  std::string reason;  // the error text of the system, if there is one
};

// Blocks for at most `patience`, or twice that if the process that listens is silent. The system
// can also block to resolve a host name.
EndpointProbe probe_endpoint(const Endpoint& endpoint, std::chrono::milliseconds patience);

}  // namespace es::actors
