#include "scheduler/policy/common/service_queue.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

// Insertion shifts at most this number of entries, and a walk visits every block. A larger value
// makes insertions slower and walks faster.
constexpr std::size_t kBlockMax = 64;

std::uint64_t improvable_types_of(const std::vector<QueueEntry>& entries) {
  std::uint64_t improvable_types = 0;
  for (const QueueEntry& entry : entries) improvable_types |= entry.improvable_types;
  return improvable_types;
}

}  // namespace

void ServiceQueue::clear(std::size_t types) {
  types_ = types;
  size_ = 0;
  blocks_.clear();
  held_.clear();
}

// The last block whose first entry is not after `entry`; otherwise the first block.
std::size_t ServiceQueue::block_of(const QueueEntry& entry) const {
  const auto after = std::upper_bound(
      blocks_.begin(), blocks_.end(), entry,
      [](const QueueEntry& a, const Block& block) { return a < block.entries.front(); });
  return after == blocks_.begin() ? 0 : static_cast<std::size_t>(after - blocks_.begin()) - 1;
}

void ServiceQueue::add_to_summary(Block& block, const QueueEntry& entry, int sign) const {
  // Subtraction works too, because unsigned arithmetic wraps around.
  const auto change = static_cast<std::uint32_t>(sign);
  if (entry.is_preemptible()) block.preemptible += change;
  if (!entry.is_reassignable()) return;
  for (std::size_t t = 0; t < types_; ++t)
    block.reassignable[t] += change * held_[entry.slot * types_ + t];
}

void ServiceQueue::insert(const QueueEntry& entry, std::span<const std::uint32_t> held) {
  held_.resize(std::max(held_.size(), (entry.slot + std::size_t{1}) * types_));
  std::copy(held.begin(), held.end(),
            held_.begin() + static_cast<std::ptrdiff_t>(entry.slot * types_));
  const std::size_t index = block_of(entry);
  if (blocks_.empty()) blocks_.push_back({{}, Counts(types_, 0)});
  Block& block = blocks_[index];
  block.entries.insert(std::lower_bound(block.entries.begin(), block.entries.end(), entry), entry);
  // Bits can only be added here. Removing an entry needs a new union over the block, because
  // another entry may have the same bit.
  block.improvable_types |= entry.improvable_types;
  add_to_summary(block, entry, 1);
  ++size_;
  if (block.entries.size() > kBlockMax) split(index);
}

void ServiceQueue::split(std::size_t index) {
  Block back{{}, Counts(types_, 0)};
  std::vector<QueueEntry>& front = blocks_[index].entries;
  const auto middle = front.begin() + static_cast<std::ptrdiff_t>(front.size() / 2);
  back.entries.assign(middle, front.end());
  front.erase(middle, front.end());
  // The counts of the summary are sums, so the entries that move are subtracted here and added
  // there.
  for (const QueueEntry& entry : back.entries) {
    add_to_summary(blocks_[index], entry, -1);
    add_to_summary(back, entry, 1);
  }
  blocks_[index].improvable_types = improvable_types_of(front);
  back.improvable_types = improvable_types_of(back.entries);
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(back));
}

void ServiceQueue::erase(const QueueEntry& entry) {
  const std::size_t index = block_of(entry);
  Block& block = blocks_[index];
  const auto at = std::lower_bound(block.entries.begin(), block.entries.end(), entry);
  // The order compares rank, key and number; number is unique. The whole entry has to be equal, or
  // the summary would be wrong from now on.
  ES_CHECK(at != block.entries.end() && *at == entry);
  block.entries.erase(at);
  add_to_summary(block, entry, -1);
  if (entry.improvable_types != 0) block.improvable_types = improvable_types_of(block.entries);
  --size_;
  if (block.entries.empty()) {
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
  } else if (block.entries.size() < kBlockMax / 4) {
    // A quarter, and a sum of at most half in join_next(): a joined block is far from both limits,
    // so a few insertions or removals do not split and join it again and again.
    join_next(index);
  }
}

// Joins two small blocks, unless together they would soon have to be split again.
void ServiceQueue::join_next(std::size_t index) {
  if (index + 1 == blocks_.size()) return;
  Block& block = blocks_[index];
  const Block& next = blocks_[index + 1];
  if (block.entries.size() + next.entries.size() > kBlockMax / 2) return;
  block.entries.insert(block.entries.end(), next.entries.begin(), next.entries.end());
  for (std::size_t t = 0; t < types_; ++t) block.reassignable[t] += next.reassignable[t];
  block.improvable_types |= next.improvable_types;
  block.preemptible += next.preemptible;
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1);
}

std::size_t ServiceQueue::count_before(std::int64_t rank) const {
  std::size_t count = 0;
  for (const Block& block : blocks_) {
    if (block.entries.back().rank < rank) {
      count += block.entries.size();
      continue;
    }
    const auto at =
        std::lower_bound(block.entries.begin(), block.entries.end(), rank,
                         [](const QueueEntry& p, std::int64_t r) { return p.rank < r; });
    return count + static_cast<std::size_t>(at - block.entries.begin());
  }
  return count;
}

std::vector<QueueEntry> ServiceQueue::entries(std::size_t from, std::size_t to) const {
  std::vector<QueueEntry> result;
  result.reserve(to - from);
  std::size_t first = 0;  // position of the block's first entry
  for (const Block& block : blocks_) {
    if (first >= to) break;
    const std::size_t begin = std::max(from, first) - first;
    const std::size_t end = std::min(block.entries.size(), to - first);
    for (std::size_t i = begin; i < end; ++i) result.push_back(block.entries[i]);
    first += block.entries.size();
  }
  return result;
}

}  // namespace es::scheduler
