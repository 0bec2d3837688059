#pragma once
// Finds the fewest and cheapest devices with places for all ESTs, at a fixed duration of a step.
// Pure function of values; thread-safe.
#include <cstdint>
#include <span>
#include <vector>

namespace es::scheduler {

struct CoverType {
  std::uint32_t places = 0;     // ESTs that one device of this type can run, >= 1
  std::uint32_t available = 0;  // number of devices, >= 1
  std::uint64_t weight = 0;     // cost of one device, <= 2^40
};

// Returns the number n_i of devices of each type such that sum_i n_i * places_i >= max_p and n_i <=
// available_i. It chooses the fewest devices; of these choices the smallest sum_i n_i * weight_i;
// of these the first list n in lexicographic order. REQUIRES: all devices together have at least
// max_p >= 1 places; the types are ordered by descending places, and by descending weight where
// places are equal.
//
// The fewest devices are those with the most places, say D devices with M places. Any other choice
// of D devices, in the order of the types, has at each position at most as many places, and may
// lose M - max_p places in all. So the problem is a shortest path over (types, devices chosen,
// places lost), and D * (M - max_p) < 2 * max_p. The cost is of order types * max_p * min(D, M -
// max_p), and usually much less. Types with equal places count as one.
std::vector<std::uint32_t> fewest_devices(std::span<const CoverType> types, std::uint32_t max_p);

}  // namespace es::scheduler
