#pragma once
// The cheapest way to find places for all ESTs on as few devices as possible, at a fixed duration
// of a step. Pure function of values; thread-safe.
#include <cstdint>
#include <span>
#include <vector>

namespace es::scheduler {

struct CoverType {
  std::uint32_t places = 0;     // ESTs that one device of this type can run, >= 1
  std::uint32_t available = 0;  // devices, >= 1
  std::uint64_t weight = 0;     // what one of them costs, <= 2^40
};

// How many devices of each type, such that sum_i n_i * places_i >= max_p and n_i <= available_i:
// the fewest devices, of these the least sum_i n_i * weight_i, of these the first n (as a list) in
// lexicographic order. REQUIRES: max_p >= 1 is covered by all devices together; the types descend
// by places, and by weight where places are equal.
//
// The fewest devices are those with most places, say D of them with M places. A choice of D other
// ones, in the order of the types, has at each position at most the places of that one, and may
// lose M - max_p in all. So it is a shortest path over (types, devices chosen, places lost), and
// D * (M - max_p) < 2 * max_p. Cost: of order types * max_p * min(D, M - max_p), usually much less;
// types with equal places count as one.
std::vector<std::uint32_t> fewest_devices(std::span<const CoverType> types, std::uint32_t max_p);

}  // namespace es::scheduler
