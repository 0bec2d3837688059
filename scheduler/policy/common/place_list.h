#pragma once
// PlaceList contains places in the order of service, in blocks. Each block has a summary by which a
// walk can pass it as a whole.
//
// To insert, erase or find a place costs a search among the blocks and a shift inside of one. A
// walk costs the number of blocks, and the places of the blocks that cannot be passed. Not
// thread-safe.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "scheduler/policy/common/board.h"

namespace es::scheduler {

// Classes of service, in the order of service.
enum class Service : std::uint8_t { kUrgent, kOverdue, kAged, kCritical, kOrdinary };

// One job in the order of service.
struct Place {
  std::int64_t rank = 0;  // priority and class combined; smaller first
  std::int64_t key = 0;   // order within the class; smaller first
  std::uint64_t number = 0;
  // Bit t is set if, with devices of type t left, the job may be given something other than what it
  // holds. If it is not set, these devices surely make no difference (type_bit()).
  std::uint64_t wakes = 0;
  std::uint32_t slot = 0;
  bool pinned = false;
  bool keeps_minimum = false;  // may not be suspended, and runs
  bool holds = false;          // holds some devices
  bool paused = false;         // holds devices and stands still for a change of them
  bool best_off = false;       // nothing is faster than what it holds

  Service service() const { return static_cast<Service>(rank & 7); }
  std::int64_t priority_rank() const { return rank >> 3; }  // smaller for higher priority
  static std::int64_t rank_of(std::int64_t priority_rank, Service service) {
    return priority_rank * 8 + static_cast<std::int64_t>(service);
  }
  // Its devices are distributed in its turn.
  bool is_in_turn() const { return holds && !pinned && !paused && !keeps_minimum; }
  // It may be left with fewer devices or none.
  bool may_lose() const { return holds && !pinned && !paused; }
  bool operator<(const Place& o) const {
    if (rank != o.rank) return rank < o.rank;
    if (key != o.key) return key < o.key;
    return number < o.number;
  }
  bool operator==(const Place&) const = default;
};

// Maps a number to an integer that ascends with it, also for negative numbers.
inline std::int64_t ascending(double x) {
  const auto bits = std::bit_cast<std::int64_t>(x);
  return bits >= 0 ? bits : std::numeric_limits<std::int64_t>::min() - bits;
}

// Types from the 64th on share a bit.
inline std::uint64_t type_bit(std::size_t type) {
  return std::uint64_t{1} << (type < 63 ? type : 63);
}

class PlaceList {
 public:
  struct Block {
    std::vector<Place> places;  // ascending, never empty
    Counts in_turn;             // devices held by places with is_in_turn(), by type
    std::uint64_t wakes = 0;    // union of the places' bits
    std::uint32_t losers = 0;   // number of places with may_lose()
  };

  void clear(std::size_t types);
  // `held` contains what the job holds, by type. REQUIRES: no other place has this slot.
  void insert(const Place& place, std::span<const std::uint32_t> held);
  // REQUIRES: this place was inserted with the same values.
  void erase(const Place& place);

  const std::vector<Block>& blocks() const { return blocks_; }
  std::size_t size() const { return size_; }
  const Place& back() const { return blocks_.back().places.back(); }
  // Number of places with a smaller rank.
  std::size_t count_before(std::int64_t rank) const;

 private:
  std::size_t block_of(const Place& place) const;
  void count(Block& block, const Place& place, int sign) const;
  void split(std::size_t index);
  void join_next(std::size_t index);

  std::size_t types_ = 0;
  std::size_t size_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::uint32_t> held_;  // by slot and type
};

}  // namespace es::scheduler
