#pragma once
// Converts a plan to a placement: it decides which device runs which virtual ranks, and which
// workers stay when the devices change. Pure functions of values; thread-safe.
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/ids.h"

namespace es::scheduler {

// What a step costs between hosts (proto/base/sum_routes.h).
struct WireCost {
  std::vector<std::string> hosts;  // of each device; empty: all devices are on one host
  // Of a step, if one more sum of every bucket crosses from one host to another, >= 0; 0: not known
  double seconds_per_crossing = 0;
};

// The number of sums of a bucket that cross from one host to another on the way to its owner, the
// mean over all owners. REQUIRES: the ranges, one for each device, cover [0, max_p).
double mean_crossings(std::span<const RankRange> ranges, const WireCost& wire, std::uint32_t max_p);

// Gives every device a contiguous range of virtual ranks. Range d belongs to the device with the
// speed capabilities[d] (local steps per second, > 0). The ranges cover [0, max_p), and none is
// empty.
//
// * Order: ascending ranks go to devices of descending capability; equal devices keep the given
//   order. The caller passes workers in an order that does not change (ascending incarnation).
// * Sizes: the sizes A_d make the maximum of A_d / C_d over the devices minimal (the exact
//   optimum). Among the choices in which no device has more than twice its balanced share, the
//   function takes the one with the fewest partial sums (an aligned power of two needs one); then
//   the best balance, which is the least sum of A_d^2 / C_d; then more ESTs on earlier devices. The
//   balanced shares result if ESTs are given out one by one, each to the device that is then least
//   loaded.
// * Hosts: if the cost of crossings is known, the same is done for longer limits of A_d / C_d, up
//   to kLongerStep times the least one. Of the divisions that this gives, the function takes the
//   one with the shortest step, max A_d / C_d + seconds_per_crossing * mean_crossings; of equals
//   the one with the least maximum.
//
// REQUIRES: 1 <= capabilities.size() <= max_p. The cost is at most of order max_p^2.
std::vector<RankRange> assign_ranks(std::span<const double> capabilities, std::uint32_t max_p,
                                    const WireCost& wire = {});

inline constexpr double kLongerStep = 1.25;

// The number of partial gradient sums that a worker with these ranks sends for each bucket: the
// maximal nodes of the canonical tree over [0, max_p) inside the range (docs/ARITHMETIC.md). At
// most 2 * ceil(log2 max_p). REQUIRES: range.end <= max_p.
std::uint32_t partial_sums(RankRange range, std::uint32_t max_p);

// The workers that stay when the devices of `current` workers become `wanted`.
struct StayChoice {
  std::vector<std::size_t> stay;   // indices into current, ascending
  std::vector<std::size_t> leave;  // the other indices, ascending
  DeviceSet join;                  // devices in `wanted` in addition to those that stay
};

// As many workers as possible stay; of one type the earlier ones in `current`.
StayChoice choose_stay(std::span<const DeviceType> current, const DeviceSet& wanted);

}  // namespace es::scheduler
