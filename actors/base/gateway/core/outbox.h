#pragma once
// Outbox: passes commands from any thread to the thread that owns the sockets.
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <variant>

#include "actors/base/access/core/identity.h"
#include "actors/base/gateway/core/endpoint.h"
#include "actors/base/gateway/core/peer_id.h"
#include "proto/frame.h"

namespace es::actors {

struct SendCommand {
  PeerId to;
  std::shared_ptr<const Frame> frame;
};
struct ConnectCommand {
  PeerId peer;
  Endpoint endpoint;
};
struct DisconnectCommand {
  PeerId peer;
};
struct AuthorizeCommand {
  access::AuthorizedKeys keys;
};
struct StopCommand {};
using TransportCommand =
    std::variant<SendCommand, ConnectCommand, DisconnectCommand, AuthorizeCommand, StopCommand>;

class Outbox {
 public:
  Outbox();
  ~Outbox();
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void post(TransportCommand command);      // on any thread
  std::deque<TransportCommand> take_all();  // by the owner; clears fd()
  int fd() const { return fd_; }            // readable while commands wait

 private:
  const int fd_;  // an eventfd
  std::mutex mutex_;
  std::deque<TransportCommand> commands_;  // guarded by mutex_
};

}  // namespace es::actors
