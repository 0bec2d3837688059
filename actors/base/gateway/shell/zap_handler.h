#pragma once
// ZapHandler decides which CURVE keys may connect (ZeroMQ RFC 27). libzmq asks it during every
// CURVE handshake, over an inproc socket of the same context; without a handler libzmq accepts any
// key. Not thread-safe.
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <zmq.hpp>

#include "actors/base/access/core/identity.h"
#include "proto/base/result.h"

namespace es::actors {

class ZapHandler {
 public:
  // REQUIRES: no socket of this context listens with CURVE yet. Error: no socket is left, or the
  // context already has a handler.
  static Result<std::unique_ptr<ZapHandler>> bind(zmq::context_t& context,
                                                  access::AuthorizedKeys authorized);

  struct Decision {
    std::string public_key;  // Z85; empty if the request contained none
    bool accepted = false;
  };
  // Answers one waiting request, if there is one.
  std::optional<Decision> answer();

  // Returns true for an authorized key that is not a published one (keys.h).
  bool accepts(const std::string& public_key) const;
  // Whose key this is. REQUIRES: it is accepted.
  const access::KeyOwner& owner(const std::string& public_key) const {
    return authorized_.at(public_key);
  }
  void authorize(access::AuthorizedKeys keys) { authorized_ = std::move(keys); }

  void* handle() { return socket_.handle(); }

 private:
  ZapHandler(zmq::context_t& context, access::AuthorizedKeys authorized);

  zmq::socket_t socket_;
  access::AuthorizedKeys authorized_;
};

}  // namespace es::actors
