#include "tests/sim/history.h"

#include <caf/abstract_actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/type_erased_tuple.hpp>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "actors/base/protocol/shell/caf_messages.h"
#include "proto/messages.h"

namespace es::test {
namespace {

using namespace actors;

void add(DigestBuilder& to, const Frame& frame) {
  to.add_text(encode_envelope(frame.envelope));
  to.add(std::as_bytes(std::span(frame.body.begin(), frame.body.size())));
}

void add(DigestBuilder& to, const Outbound& m) {
  to.add_text(m.to);
  add(to, *m.frame);
}

void add(DigestBuilder& to, const Inbound& m) {
  to.add_text(m.from);
  add(to, *m.frame);
}

void add(DigestBuilder& to, const ConnectPeer& m) {
  to.add_text(m.peer + " " + m.endpoint);
}
void add(DigestBuilder& to, const PeerUp& m) {
  to.add_text(m.peer);
}
void add(DigestBuilder& to, const PeerDown& m) {
  to.add_text(m.peer);
}

template <class Schema>
void add(DigestBuilder& to, const Msg<Schema>& m) {
  add(to, *m.frame());
}

template <class... Types>
void add_content(DigestBuilder& to, const caf::type_erased_tuple& content) {
  const auto add_if = [&]<class T>() {
    if (content.match_elements<T>()) add(to, content.get_as<T>(0));
  };
  (add_if.template operator()<Types>(), ...);
}

}  // namespace

void History::add(Instant now, caf::actor_id receiver, const caf::mailbox_element& message) {
  ++count_;
  builder_.add_u64(static_cast<std::uint64_t>(now.count()));
  builder_.add_u64(receiver);
  builder_.add_u64(message.sender ? message.sender->id() : 0);
  const caf::type_erased_tuple& content = message.content();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const auto [number, type] = content.type(i);
    builder_.add_u64(number);
    if (type != nullptr) builder_.add_text(type->name());
  }
  add_content<Outbound, Inbound, ConnectPeer, PeerUp, PeerDown, Msg<wire::Demand>,
              Msg<wire::Allocation>, Msg<wire::DemandRefused>, Msg<wire::DeviceReleased>,
              Msg<wire::JobEnded>, Msg<wire::PlanQuery>, Msg<wire::PlanAnswer>,
              Msg<wire::CapabilityReport>, Msg<wire::Inventory>, Msg<wire::DescribeJob>,
              Msg<wire::CancelJob>>(builder_, content);
}

}  // namespace es::test
