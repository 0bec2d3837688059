#include "actors/worker/core/bulk_pull.h"

#include <algorithm>
#include <utility>

namespace es::actors::worker {

using namespace protocol;

std::vector<Bulk*> bulks_of(PeerMessage& message) {
  if (auto* contrib = std::get_if<Contrib>(&message)) return {&contrib->data};
  if (auto* reduced = std::get_if<Reduced>(&message)) return {&reduced->data};
  if (auto* updated = std::get_if<Updated>(&message)) return {&updated->data};
  if (auto* shards = std::get_if<Shards>(&message)) return {&shards->data};
  std::vector<Bulk*> bulks;
  if (auto* state = std::get_if<State>(&message)) {
    bulks.push_back(&state->parameters);
    for (Bulk& moment : state->moments) bulks.push_back(&moment);
  }
  return bulks;
}

bool travels_inline(const std::vector<Bulk*>& bulks) {
  std::uint64_t total = 0;
  for (const Bulk* const bulk : bulks) total += bulk->bytes;
  return total <= kInlineBytesMax;
}

Bulk* BulkPull::first_remote(PeerMessage& message) {
  const std::vector<Bulk*> bulks = bulks_of(message);
  const auto found = std::ranges::find_if(bulks, [](const Bulk* bulk) { return bulk->remote; });
  return found == bulks.end() ? nullptr : *found;
}

BulkPull::Outcome BulkPull::add(PeerMessage message) {
  Outcome outcome;
  if (first_remote(message) == nullptr) {
    outcome.complete.push_back(std::move(message));
    return outcome;
  }
  const Incarnation sender = stamp_of(message).sender;
  std::deque<Fetching>& queue = fetching_[sender];
  queue.push_back({std::move(message), {}, 0});
  // Only the first message of a sender is being fetched. A later one begins when those before it
  // are complete.
  if (queue.size() == 1) advance(sender, outcome);
  return outcome;
}

BulkPull::Outcome BulkPull::take(const Stamp& from, const std::string& segment,
                                 std::uint64_t offset, std::span<const std::byte> bytes) {
  Outcome outcome;
  const auto queue = fetching_.find(from.sender);
  if (queue == fetching_.end()) return outcome;
  Fetching& fetching = queue->second.front();
  const Bulk& bulk = *first_remote(fetching.message);
  const std::uint64_t held = fetching.bytes.size();
  // Pieces arrive in the order of their requests, so only the next byte of the running bulk is
  // expected. Anything else belongs to a message that was abandoned, or was never requested, and is
  // dropped.
  const bool expected = stamp_of(fetching.message).generation == from.generation &&
                        segment == bulk.segment && offset == bulk.offset + held && !bytes.empty() &&
                        bytes.size() <= fetching.asked - held;
  if (!expected) return outcome;
  fetching.bytes.insert(fetching.bytes.end(), bytes.begin(), bytes.end());
  outcome.progress = true;
  advance(from.sender, outcome);
  return outcome;
}

// Requests as many pieces as the window has room for. When a bulk or message is complete, it goes
// on to the next one.
void BulkPull::advance(Incarnation sender, Outcome& outcome) {
  const auto queue = fetching_.find(sender);
  while (!queue->second.empty()) {
    Fetching& fetching = queue->second.front();
    Bulk* bulk = first_remote(fetching.message);
    if (bulk == nullptr) {
      outcome.complete.push_back(std::move(fetching.message));
      queue->second.pop_front();
    } else if (fetching.bytes.size() == bulk->bytes) {
      // From here on the message looks as if the bytes had travelled inside it, so the rest of the
      // worker does not distinguish the two cases.
      bulk->inline_bytes =
          std::make_shared<const std::vector<std::byte>>(std::exchange(fetching.bytes, {}));
      bulk->segment.clear();
      bulk->remote = false;
      fetching.asked = 0;
    } else {
      return ask(fetching, outcome);
    }
  }
  fetching_.erase(queue);
}

void BulkPull::ask(Fetching& fetching, Outcome& outcome) {
  const Bulk& bulk = *first_remote(fetching.message);
  const Stamp& stamp = stamp_of(fetching.message);
  // `asked` counts bytes that were requested, and `bytes` those that have arrived. At most
  // kPiecesInFlight pieces lie between them, so a message of any size fills no queue.
  if (fetching.asked == 0) fetching.bytes.reserve(bulk.bytes);
  const std::uint64_t window = std::uint64_t{kPiecesInFlight} * kPieceBytes;
  while (fetching.asked < std::min(bulk.bytes, fetching.bytes.size() + window)) {
    const auto bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(kPieceBytes, bulk.bytes - fetching.asked));
    outcome.requests.push_back(
        {stamp.generation, stamp.sender, bulk.segment, bulk.offset + fetching.asked, bytes});
    fetching.asked += bytes;
  }
}

void BulkPull::abandon(Generation before) {
  for (auto& [sender, queue] : fetching_) {
    std::erase_if(queue, [before](const Fetching& fetching) {
      return stamp_of(fetching.message).generation < before;
    });
  }
  std::erase_if(fetching_, [](const auto& entry) { return entry.second.empty(); });
}

}  // namespace es::actors::worker
