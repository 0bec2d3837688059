#include "actors/worker/core/channel_book.h"

#include <algorithm>
#include <utility>

#include "actors/worker/core/bulk_pull.h"

namespace es::actors::worker {

using namespace protocol;

ChannelBook::Use ChannelBook::use(Incarnation to) {
  if (outgoing_.contains(to)) return is_open(to) ? Use::kNow : Use::kNo;
  // A peer has at most one channel in a generation: its entry stays even if the channel breaks, and
  // it counts towards the limit.
  if (avoided_.contains(to) || outgoing_.size() == channels_max_) return Use::kNo;
  outgoing_.emplace(to, Outgoing{});
  return Use::kOffer;
}

bool ChannelBook::is_open(Incarnation to) const {
  const auto found = outgoing_.find(to);
  return found != outgoing_.end() && found->second.ready && !found->second.broken;
}

std::uint64_t ChannelBook::announce(Incarnation to) {
  return ++outgoing_.at(to).announced;
}

void ChannelBook::ready(Incarnation to) {
  if (const auto found = outgoing_.find(to); found != outgoing_.end()) found->second.ready = true;
}

bool ChannelBook::broken(Incarnation to, Instant now) {
  const auto found = outgoing_.find(to);
  if (found == outgoing_.end() || found->second.broken) return false;
  // Without an announced transfer nothing can be lost: until a channel is ready, data goes through
  // host memory.
  found->second.broken = now;
  return found->second.announced != 0;
}

void ChannelBook::tick(Instant now) {
  for (const auto& [to, channel] : outgoing_)
    // A round would have cleared outgoing_ by now (abandon). The channel broke by itself, so it is
    // not tried again in later generations.
    if (channel.broken && now - *channel.broken >= kRoundFollows) avoided_.insert(to);
}

// avoided_ is kept: it describes the devices and not a generation.
void ChannelBook::abandon() {
  outgoing_.clear();
}

bool carries_gradient(const PeerMessage& message) {
  return std::holds_alternative<Contrib>(message) || std::holds_alternative<Reduced>(message);
}

bool on_device_alone(PeerMessage& message) {
  const std::vector<Bulk*> bulks = bulks_of(message);
  return std::any_of(bulks.begin(), bulks.end(), [](const Bulk* bulk) { return !bulk->in_host; });
}

Bulk* channel_bulk(PeerMessage& message) {
  for (Bulk* const bulk : bulks_of(message))
    if (bulk->transfer != 0) return bulk;
  return nullptr;
}

ChannelInbox::Arrival ChannelInbox::add(PeerMessage message) {
  const Bulk bulk = *channel_bulk(message);
  Incoming& incoming = incoming_[stamp_of(message).sender];
  // A gap in the numbers means that a message was lost on the link. The bytes in the channel have
  // no numbers of their own, so from here on they cannot be matched to messages.
  if (bulk.transfer != incoming.announced + 1) incoming.broken = true;
  if (incoming.broken)
    return {.receive = std::nullopt, .lost = !std::exchange(incoming.loss_reported, true)};
  incoming.announced = bulk.transfer;
  incoming.waiting.push_back(std::move(message));
  return {.receive = bulk.bytes};
}

std::optional<PeerMessage> ChannelInbox::take(Incarnation from, Arrived bytes) {
  const auto found = incoming_.find(from);
  if (found == incoming_.end() || found->second.waiting.empty()) return std::nullopt;
  PeerMessage message = std::move(found->second.waiting.front());
  found->second.waiting.pop_front();
  Bulk& bulk = *channel_bulk(message);
  // From here on the message is like one whose data has travelled in another way.
  bulk.transfer = 0;
  bulk.inline_bytes = std::move(bytes.host);
  bulk.device = std::move(bytes.device);
  bulk.in_host = bulk.inline_bytes != nullptr;
  return message;
}

bool ChannelInbox::broken(Incarnation from) {
  Incoming& incoming = incoming_[from];
  incoming.broken = true;
  // If no message waits for bytes, nothing is lost yet. A message for this channel that arrives
  // later is reported by add().
  if (incoming.waiting.empty()) return false;
  return !std::exchange(incoming.loss_reported, true);
}

void ChannelInbox::abandon() {
  incoming_.clear();
}

}  // namespace es::actors::worker
