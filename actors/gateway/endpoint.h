#pragma once
// Endpoint: an address at which a process listens, and the rule about which addresses are allowed
// without keys.
//
//   ipc:///PATH        Unix socket. Protected by file permissions: its directory belongs to us and
//                      is closed to everybody else (mode 0700).
//   tcp://HOST:PORT    PORT is 1..65535, or * to listen on any free port. Needs CURVE keys, unless
//                      HOST is the loopback address and the operator allowed that.
#include <string>

#include "proto/base/result.h"

namespace es::actors {

struct Endpoint {
  enum class Kind { kIpc, kTcp };
  Kind kind = Kind::kIpc;
  std::string text;  // as ZeroMQ takes it
  std::string path;  // of the socket file; ipc only
  std::string host;  // tcp only; IPv6 in brackets

  bool is_loopback() const;  // tcp to 127.0.0.0/8, [::1] or localhost
  bool operator==(const Endpoint&) const = default;
};

// Reads an endpoint. Error (usage): says the text and what is allowed.
Result<Endpoint> parse_endpoint(const std::string& text);

// Error (refused): a TCP endpoint without keys that `insecure_loopback` does not excuse; says how
// to get keys.
Status check_security(const Endpoint& endpoint, bool has_keys, bool insecure_loopback);

// Makes ready to listen at an ipc endpoint: creates the directory (0700) when it is missing.
// Error (refused): the directory is open to other users, somebody already listens there, or there
// is a file that is no socket.
Status prepare_ipc(const Endpoint& endpoint);

}  // namespace es::actors
