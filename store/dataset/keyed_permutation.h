#pragma once
// A random permutation of [0, n) of which each element can be computed alone.
//
// It is a Feistel network of 8 rounds over 2 x h bits, with 2^(2h) >= n and h >= 4. The round
// function is Philox4x32-10 with the key. A value outside [0, n) passes through the network again
// until it is inside ("cycle walking"), so the result is a permutation by construction. Each
// element costs the same small time on average, and no shuffled array has to be built, stored or
// transferred. Immutable, thread-safe; allocates no memory.
#include <array>
#include <cstdint>
#include <span>

#include "proto/base/check.h"
#include "proto/base/philox.h"
#include "store/dataset/stream_key.h"

namespace es::store {

class KeyedPermutation {
 public:
  // REQUIRES: 1 <= n <= 2^62.
  KeyedPermutation(std::uint64_t n, PhiloxKey key) : n_(n), key_(key) {
    while ((std::uint64_t{1} << (2 * half_bits_)) < n) ++half_bits_;
  }

  // REQUIRES: position < n.
  std::uint64_t operator()(std::uint64_t position) const {
    std::uint64_t value = 0;
    fill(position, std::span(&value, 1));
    return value;
  }

  // Writes the elements first, first + 1, ... Several are computed at once, because each round
  // waits for the one before it, and one element alone does not occupy a processor. REQUIRES: first
  // + out.size() <= n.
  void fill(std::uint64_t first, std::span<std::uint64_t> out) const {
    ES_CHECK(first <= n_ && out.size() <= n_ - first);
    std::array<Lane, kLanes> lanes;
    std::size_t used = 0, next = 0;
    // A lane keeps its value while it is outside of [0, n); a lane that is finished gets the next
    // position.
    while (used > 0 || next < out.size()) {
      for (; used < kLanes && next < out.size(); ++next) lanes[used++] = {first + next, next};
      rounds(std::span(lanes).first(used));
      std::size_t kept = 0;
      for (std::size_t i = 0; i < used; ++i) {
        if (lanes[i].value < n_)
          out[lanes[i].place] = lanes[i].value;
        else
          lanes[kept++] = lanes[i];
      }
      used = kept;
    }
  }

 private:
  static constexpr std::uint32_t kRounds = 8;
  static constexpr std::size_t kLanes = 8;

  struct Lane {
    std::uint64_t value = 0;
    std::size_t place = 0;  // index in the output
  };

  void rounds(std::span<Lane> lanes) const {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      for (Lane& lane : lanes) {
        const std::uint64_t left = lane.value >> half_bits_, right = lane.value & mask;
        const std::uint64_t word = philox4x32_10(index_counter(right, round), key_)[0];
        lane.value = right << half_bits_ | (left ^ (word & mask));
      }
    }
  }

  std::uint64_t n_;
  PhiloxKey key_;
  std::uint32_t half_bits_ = 4;
};

}  // namespace es::store
