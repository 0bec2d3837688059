#pragma once
// HistoryHash: one number for all messages that actors received, in order. It covers the time, the
// receiver, the sender and the number of parts of each message, and the whole content of each frame
// between the head and the world.
#include <caf/mailbox_element.hpp>

#include <cstdint>
#include <memory>

#include "actors/base/protocol/core/instant.h"
#include "proto/frame.h"

namespace es::actors::simulator {

class HistoryHash {
 public:
  void add(Instant now, std::uint64_t receiver, const caf::mailbox_element& message);
  std::uint64_t count() const { return count_; }
  std::uint64_t value() const { return state_; }

 private:
  void mix(std::uint64_t value);
  void mix(const Frame& frame);
  void mix_digest_of(const std::shared_ptr<const Frame>& frame);

  std::uint64_t state_ = 0x9e3779b97f4a7c15;
  std::uint64_t count_ = 0;
  // The last frame and its digest: a frame with several receivers is hashed once.
  std::shared_ptr<const Frame> frame_;
  std::uint64_t digest_ = 0;
};

}  // namespace es::actors::simulator
