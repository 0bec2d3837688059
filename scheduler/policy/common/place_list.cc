#include "scheduler/policy/common/place_list.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

constexpr std::size_t kBlockMax = 64;

std::uint64_t wakes_of(const std::vector<Place>& places) {
  std::uint64_t wakes = 0;
  for (const Place& place : places) wakes |= place.wakes;
  return wakes;
}

}  // namespace

void PlaceList::clear(std::size_t types) {
  types_ = types;
  size_ = 0;
  blocks_.clear();
  held_.clear();
}

// The last block whose first place is not after `place`; otherwise the first block.
std::size_t PlaceList::block_of(const Place& place) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), place,
                       [](const Place& a, const Block& block) { return a < block.places.front(); });
  return after == blocks_.begin() ? 0 : static_cast<std::size_t>(after - blocks_.begin()) - 1;
}

void PlaceList::count(Block& block, const Place& place, int sign) const {
  // Subtraction works too, because unsigned arithmetic wraps around.
  const auto change = static_cast<std::uint32_t>(sign);
  if (place.may_lose()) block.losers += change;
  if (!place.is_in_turn()) return;
  for (std::size_t t = 0; t < types_; ++t)
    block.in_turn[t] += change * held_[place.slot * types_ + t];
}

void PlaceList::insert(const Place& place, std::span<const std::uint32_t> held) {
  held_.resize(std::max(held_.size(), (place.slot + std::size_t{1}) * types_));
  std::copy(held.begin(), held.end(),
            held_.begin() + static_cast<std::ptrdiff_t>(place.slot * types_));
  const std::size_t index = block_of(place);
  if (blocks_.empty()) blocks_.push_back({{}, Counts(types_, 0)});
  Block& block = blocks_[index];
  block.places.insert(std::lower_bound(block.places.begin(), block.places.end(), place), place);
  block.wakes |= place.wakes;
  count(block, place, 1);
  ++size_;
  if (block.places.size() > kBlockMax) split(index);
}

void PlaceList::split(std::size_t index) {
  Block back{{}, Counts(types_, 0)};
  std::vector<Place>& front = blocks_[index].places;
  const auto middle = front.begin() + static_cast<std::ptrdiff_t>(front.size() / 2);
  back.places.assign(middle, front.end());
  front.erase(middle, front.end());
  for (const Place& place : back.places) {
    count(blocks_[index], place, -1);
    count(back, place, 1);
  }
  blocks_[index].wakes = wakes_of(front);
  back.wakes = wakes_of(back.places);
  blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(back));
}

void PlaceList::erase(const Place& place) {
  const std::size_t index = block_of(place);
  Block& block = blocks_[index];
  const auto at = std::lower_bound(block.places.begin(), block.places.end(), place);
  ES_CHECK(at != block.places.end() && *at == place);
  block.places.erase(at);
  count(block, place, -1);
  if (place.wakes != 0) block.wakes = wakes_of(block.places);
  --size_;
  if (block.places.empty()) {
    blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index));
  } else if (block.places.size() < kBlockMax / 4) {
    join_next(index);
  }
}

// Joins two small blocks, unless together they would soon have to be split again.
void PlaceList::join_next(std::size_t index) {
  if (index + 1 == blocks_.size()) return;
  Block& block = blocks_[index];
  const Block& next = blocks_[index + 1];
  if (block.places.size() + next.places.size() > kBlockMax / 2) return;
  block.places.insert(block.places.end(), next.places.begin(), next.places.end());
  for (std::size_t t = 0; t < types_; ++t) block.in_turn[t] += next.in_turn[t];
  block.wakes |= next.wakes;
  block.losers += next.losers;
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(index) + 1);
}

std::size_t PlaceList::count_before(std::int64_t rank) const {
  std::size_t count = 0;
  for (const Block& block : blocks_) {
    if (block.places.back().rank < rank) {
      count += block.places.size();
      continue;
    }
    const auto at = std::lower_bound(block.places.begin(), block.places.end(), rank,
                                     [](const Place& p, std::int64_t r) { return p.rank < r; });
    return count + static_cast<std::size_t>(at - block.places.begin());
  }
  return count;
}

}  // namespace es::scheduler
