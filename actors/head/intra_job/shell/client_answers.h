#pragma once
// ClientAnswers sends the answers of one job to clients, through the gateway.
#include <cstdint>
#include <memory>
#include <utility>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/wire/shared_body.h"
#include "actors/base/protocol/wire/wire_error.h"
#include "actors/head/intra_job/shell/job_mail.h"
#include "proto/messages.h"

namespace es::actors {

// A request that a client has made. Numbers of different clients may be equal.
struct ClientRequest {
  PeerId client;
  std::uint64_t number = 0;
};
inline ClientRequest request_of(const Inbound& inbound) {
  return {inbound.from, inbound.frame->envelope.request};
}

// The numbers that a head gives to requests and traces. Those of an earlier head are not used
// again, because workers may still remember them: the generation grows with every round, so it
// keeps them apart.
class RequestNumbers {
 public:
  explicit RequestNumbers(Generation generation) : next_((generation.value << 32) + 1) {}
  std::uint64_t next() { return next_++; }

 private:
  std::uint64_t next_;
};

class ClientAnswers {
 public:
  // `mail` outlives this object.
  ClientAnswers(JobId job, JobMail& mail) : job_(std::move(job)), mail_(mail) {}

  template <class Schema, class Fill>
  void answer(const ClientRequest& to, Fill&& fill) const {
    mail_.to_peer(to.client, Msg<Schema>::build(envelope(to), std::forward<Fill>(fill)).frame());
  }
  void refuse(const ClientRequest& to, const Error& error) const {
    answer<wire::Refusal>(to, [&](wire::Refusal::Builder b) {
      b.setKind(to_wire(error.kind));
      b.setMessage(error.message);
    });
  }
  // Passes on a message that others get too, or that another actor has made.
  void pass_on(const ClientRequest& to, std::shared_ptr<const Frame> frame,
               Incarnation sender = {}) const {
    Envelope head = envelope(to);
    head.sender = sender;
    mail_.to_peer(to.client, with_envelope(std::move(frame), std::move(head)));
  }
  // The envelope of an answer.
  Envelope envelope(const ClientRequest& to) const { return {.job = job_, .request = to.number}; }

 private:
  JobId job_;
  JobMail& mail_;
};

}  // namespace es::actors
