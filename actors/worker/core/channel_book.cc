#include "actors/worker/core/channel_book.h"

#include <algorithm>
#include <utility>

#include "actors/worker/core/bulk_pull.h"

namespace es::actors::worker {

using namespace protocol;

ChannelBook::Use ChannelBook::use(Incarnation to) {
  if (outgoing_.contains(to)) return is_open(to) ? Use::kNow : Use::kNo;
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
  found->second.broken = now;
  return found->second.announced != 0;
}

void ChannelBook::tick(Instant now) {
  for (const auto& [to, channel] : outgoing_)
    if (channel.broken && now - *channel.broken >= kRoundFollows) avoided_.insert(to);
}

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
  bulk.transfer = 0;
  bulk.inline_bytes = std::move(bytes.host);
  bulk.device = std::move(bytes.device);
  bulk.in_host = bulk.inline_bytes != nullptr;
  return message;
}

bool ChannelInbox::broken(Incarnation from) {
  Incoming& incoming = incoming_[from];
  incoming.broken = true;
  if (incoming.waiting.empty()) return false;
  return !std::exchange(incoming.loss_reported, true);
}

void ChannelInbox::abandon() {
  incoming_.clear();
}

}  // namespace es::actors::worker
