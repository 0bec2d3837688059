#pragma once
// Replies: what the head answers to requests, and other frames that it sends through its gateway.
//
// Ownership and threads: it owns nothing but the function that sends, and is used by one actor.
#include <functional>
#include <memory>
#include <utility>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/wire/wire_error.h"
#include "proto/messages.h"

namespace es::actors {

class Replies {
 public:
  // `send` hands a frame to the gateway.
  explicit Replies(std::function<void(Outbound)> send) : send_(std::move(send)) {}

  void send(const PeerId& to, std::shared_ptr<const Frame> frame) const {
    send_({to, std::move(frame)});
  }
  // Answers a request: the envelope names its job and its number.
  template <class Schema, class Fill>
  void answer(const Inbound& request, Fill&& fill) const {
    const Envelope& envelope = request.frame->envelope;
    send(request.from,
         Msg<Schema>::build({.job = envelope.job, .request = envelope.request}, fill).frame());
  }
  void refuse(const Inbound& request, const Error& error) const {
    answer<wire::Refusal>(request, [&](wire::Refusal::Builder b) {
      b.setKind(to_wire(error.kind));
      b.setMessage(error.message);
    });
  }
  // Done, or the refusal.
  void reply(const Inbound& request, const Status& status) const {
    if (!status.ok()) return refuse(request, status.error());
    answer<wire::Done>(request, [](wire::Done::Builder) {});
  }

 private:
  const std::function<void(Outbound)> send_;
};

// The client that sends, if its rights are known; nullptr: it may see all jobs. Valid while
// `inbound` is.
inline const access::Identity* client_of(const Inbound& inbound) {
  if (!inbound.sender || !inbound.sender->owner || !inbound.sender->owner->client) return nullptr;
  return &*inbound.sender->owner->client;
}

}  // namespace es::actors
