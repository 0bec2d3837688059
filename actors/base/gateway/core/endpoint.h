#pragma once
// Endpoint: an address at which a process listens, and the rule that decides which addresses are
// allowed without keys.
//
//   ipc:///PATH        A Unix socket. File permissions protect it: its directory belongs to the
//                      user of this process and has mode 0700.
//   tcp://HOST:PORT    PORT is 1 to 65535, or * to listen on any free port. It needs CURVE keys,
//                      unless HOST is the loopback address and the operator has allowed this.
#include <string>

#include "proto/base/result.h"

namespace es::actors {

struct Endpoint {
  enum class Kind { kIpc, kTcp };
  Kind kind = Kind::kIpc;
  std::string text;  // in the form that ZeroMQ expects
  std::string path;  // of the socket file; ipc only
  std::string host;  // tcp only; IPv6 in brackets

  bool is_loopback() const;  // tcp to 127.0.0.0/8, [::1] or localhost
  bool operator==(const Endpoint&) const = default;
};

// Reads an endpoint. Error (usage): the message contains the text and what is allowed.
Result<Endpoint> parse_endpoint(const std::string& text);

// Error (refused): a TCP endpoint without keys that `insecure_loopback` does not allow. The message
// says how to make keys.
Status check_security(const Endpoint& endpoint, bool has_keys, bool insecure_loopback);

// Prepares to listen at an ipc endpoint: creates the directory with mode 0700 if it is missing.
// Error (refused): other users may enter the directory, a process already listens at the endpoint,
// or the path is a file that is not a socket.
Status prepare_ipc(const Endpoint& endpoint);

}  // namespace es::actors
