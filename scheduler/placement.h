#pragma once
// From a plan to a placement: which device runs which virtual ranks, and which workers stay when
// the devices change. Pure functions of values; thread-safe.
#include <cstddef>
#include <span>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/ids.h"

namespace es::scheduler {

// Gives every device a contiguous range of virtual ranks: range d is that of capabilities[d] (local
// steps per second of that device, > 0). Together they are [0, max_p), none is empty.
//
//   order   ascending ranks go to devices of descending capability, equal ones in the given order.
//           Pass workers in an order that does not change (ascending incarnation).
//   sizes   A_d such that max over devices of A_d / C_d is minimal (the exact optimum).
//           Among those where no device has more than twice its balanced share (ESTs handed out one
//           by one, each to the device that is least loaded with it): the fewest partial sums, of
//           which aligned powers of two need one; then the best balance, the least sum of
//           A_d^2 / C_d; then more ESTs to earlier devices.
//
// REQUIRES: 1 <= capabilities.size() <= max_p. Cost: of order max_p^2 at most.
std::vector<RankRange> assign_ranks(std::span<const double> capabilities, std::uint32_t max_p);

// How many partial gradient sums a worker with these ranks sends for a bucket: the maximal nodes of
// the canonical tree over [0, max_p) inside the range. At most 2 * ceil(log2 max_p).
// REQUIRES: range.end <= max_p.
std::uint32_t partial_sums(RankRange range, std::uint32_t max_p);

// Who stays when `current` workers (by the type of their devices) become `wanted`.
struct StayChoice {
  std::vector<std::size_t> stay;   // indices into current, ascending
  std::vector<std::size_t> leave;  // the others, ascending
  DeviceSet join;                  // devices that wanted has beyond those that stay
};

// As many as possible stay; of one type, the earlier ones in `current`.
StayChoice choose_stay(std::span<const DeviceType> current, const DeviceSet& wanted);

}  // namespace es::scheduler
