#pragma once
// History is one digest over all messages that actors received, in order. Two runs with equal
// histories did the same things at the same virtual times.
#include <caf/mailbox_element.hpp>

#include <cstdint>

#include "actors/base/protocol/core/instant.h"
#include "proto/base/digest.h"

namespace es::test {

class History {
 public:
  // Time, receiver, sender, type and content: frames with envelope and body, other messages of the
  // real actors with their words, and messages inside the simulation by type only.
  void add(actors::Instant now, caf::actor_id receiver, const caf::mailbox_element& message);

  Digest digest() const { return builder_.finish(); }
  std::uint64_t count() const { return count_; }

 private:
  DigestBuilder builder_;
  std::uint64_t count_ = 0;
};

}  // namespace es::test
