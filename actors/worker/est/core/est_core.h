#pragma once
// EstCore decides which mini-batch one EST requests, and when the EST asks the device to run.
//
// It has no clock, no I/O and no actor. An event goes in, and effects come out in the order in
// which the shell must perform them. Not thread-safe; it has one owner.
//
// Invariants:
// * A slice is offered only with the mini-batch of its step, and once for each grant.
// * At most one mini-batch is held, and the answer to at most one request will be kept.
// * Every slot that arrives is either offered to the device or returned.
// * The answer to a request from before a dismissal is returned, even if the same step is wanted
//   again. The data workers gave it a slot in the order of slices that was valid then; by keeping
//   such slots, later ranks could take all slots while the device waits for an earlier rank.
// * No mini-batch of a step >= `last_version` is requested ahead of its grant.
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "proto/base/ids.h"

namespace es::actors {

// A mini-batch in a slot of the batch pool.
struct LoadedBatch {
  Version step = 0;
  std::uint32_t slot = 0;
  std::string error{};  // not empty if the mini-batch could not be loaded
};

// --- effects ------------------------------------------------------------------------------------

// Requests the mini-batch of this step from the data workers.
struct RequestBatch {
  Version step = 0;
};

// Returns a slot to the data workers.
struct ReturnSlot {
  std::uint32_t slot = 0;
};

// Asks the device to run the granted slice with this mini-batch. The slot belongs to the device
// until it says that the slice is done.
struct OfferSlice {
  Generation generation;
  LoadedBatch batch;
};

using EstEffect = std::variant<RequestBatch, ReturnSlot, OfferSlice>;
using EstEffects = std::vector<EstEffect>;

class EstCore {
 public:
  // The job ends at `last_version`.
  explicit EstCore(Version last_version) : last_version_(last_version) {}

  // The device grants a slice of this step. A step may be granted again, because a round can make
  // the job repeat it.
  EstEffects granted(Generation generation, Version step);
  // The data workers answer a request, possibly one that is no longer wanted. REQUIRES: each
  // request is answered once.
  EstEffects loaded(LoadedBatch batch);
  // The ranks of the device have changed: nothing is held or wanted until the next grant.
  EstEffects dismissed();

 private:
  struct Grant {
    Generation generation;
    Version step = 0;
  };
  void want(Version step, EstEffects& effects);
  void forget_request();
  void offer_if_ready(EstEffects& effects);
  void return_held(EstEffects& effects);

  Version last_version_;
  std::optional<Version> requested_;  // the step of the request whose answer will be kept
  std::multiset<Version> forgotten_;  // steps of older requests that are not answered yet
  std::optional<LoadedBatch> held_;
  std::optional<Grant> grant_;  // waits for its mini-batch
};

}  // namespace es::actors
