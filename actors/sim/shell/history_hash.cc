#include "actors/sim/shell/history_hash.h"

#include <caf/abstract_actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/type_erased_tuple.hpp>

#include <bit>
#include <cstring>

#include "actors/base/gateway/shell/gateway_messages.h"

namespace es::actors::simulator {

// One round of a multiply-rotate hash. It is fast, and every bit influences the result.
void HistoryHash::mix(std::uint64_t value) {
  state_ = std::rotl((state_ ^ value) * 0xff51afd7ed558ccd, 31) + 0x9e3779b97f4a7c15;
}

void HistoryHash::mix(const Frame& frame) {
  mix(static_cast<std::uint64_t>(frame.envelope.type));
  for (const char c : frame.envelope.job) mix(static_cast<unsigned char>(c));
  mix(frame.envelope.sender.value);
  mix(frame.envelope.generation.value);
  mix(frame.envelope.request);
  for (const capnp::word& word : frame.body) {
    std::uint64_t value = 0;
    std::memcpy(&value, &word, sizeof value);
    mix(value);
  }
}

void HistoryHash::mix_digest_of(const std::shared_ptr<const Frame>& frame) {
  if (frame_ != frame) {
    HistoryHash alone;
    alone.mix(*frame);
    digest_ = alone.state_;
    frame_ = frame;
  }
  mix(digest_);
}

void HistoryHash::add(Instant now, std::uint64_t receiver, const caf::mailbox_element& message) {
  ++count_;
  mix(static_cast<std::uint64_t>(now.count()));
  mix(receiver);
  mix(message.sender ? message.sender->id() : 0);
  const caf::type_erased_tuple& content = message.content();
  mix(content.size());
  // Frames are hashed with their content. Of other messages only time, sender, receiver and the
  // number of elements count.
  if (content.match_elements<Inbound>()) {
    mix_digest_of(content.get_as<Inbound>(0).frame);
  } else if (content.match_elements<Outbound>()) {
    mix_digest_of(content.get_as<Outbound>(0).frame);
  }
}

}  // namespace es::actors::simulator
