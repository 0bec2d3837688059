#pragma once
// BatchQueue decides which requested mini-batch is loaded next, and into which slot.
//
// It has no clock, no I/O and no actor. Each event returns the fills that begin now. Not
// thread-safe; it has one owner.
//
// Invariants:
// * A slot has one user at a time: from its Fill until slot_free().
// * Requests are served by step and then by rank, which is the order in which the device runs
//   slices, whatever their order of arrival.
// * The last free slot is given only to the slice that the device runs next. ESTs return a slot
//   only after their slice, so without this rule later slices could hold all slots while the device
//   waits for an earlier one.
#include <cstdint>
#include <vector>

#include "proto/base/ids.h"

namespace es::actors {

// A loader fills `slot` with the mini-batch of this step and rank.
struct Fill {
  Version step = 0;
  VirtualRank rank = 0;
  std::uint32_t slot = 0;
};

class BatchQueue {
 public:
  // REQUIRES: at least one slot and one loader.
  BatchQueue(std::uint32_t slots, std::uint32_t loaders);

  // An EST requests a mini-batch.
  std::vector<Fill> request(Version step, VirtualRank rank);
  // The device says which slice it runs next.
  std::vector<Fill> next_slice(Version step, VirtualRank rank);
  // A loader has finished its fill.
  std::vector<Fill> loader_free();
  // The user of this slot has returned it.
  std::vector<Fill> slot_free(std::uint32_t slot);

 private:
  struct Request {
    Version step = 0;
    VirtualRank rank = 0;
    auto operator<=>(const Request&) const = default;
  };
  std::vector<Request>::iterator servable();
  std::vector<Fill> serve();

  std::uint32_t slots_;
  std::uint32_t free_loaders_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Request> waiting_;
  Request next_slice_;
};

}  // namespace es::actors
