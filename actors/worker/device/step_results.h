#pragma once
// What the local steps of one global step have produced on this device, and how long they took.
// Only the device thread uses it.
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "actors/base/protocol/core/instant.h"
#include "actors/base/protocol/core/messages.h"
#include "gpu/est/est_context.h"
#include "gpu/est/gradient_tree.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

// The results up to now, apart from the gradients.
struct StepResults {
  std::map<VirtualRank, gpu::EstContext> next_contexts;
  std::map<VirtualRank, float> losses;
  // Sums of bucket 0 that became ready while a slice was running. Bucket 0 carries the losses, and
  // the loss of the slice is known only when the slice ends.
  std::vector<gpu::PartReady> without_loss;
  std::vector<double> slice_seconds;  // compute time of each local step, by rank

  // REQUIRES: the slices of these ranks have run.
  std::vector<protocol::RankResult> of(RankRange ranks) const {
    std::vector<protocol::RankResult> results;
    for (VirtualRank rank = ranks.begin; rank < ranks.end; ++rank)
      results.push_back(
          {rank, std::bit_cast<std::uint32_t>(losses.at(rank)),
           std::make_shared<const std::vector<std::byte>>(gpu::encode(next_contexts.at(rank)))});
    return results;
  }
};

// StepClock measures how a device spends its time in the local steps of one global step: computing,
// switching from one EST to the next, or waiting for a mini-batch. Users and the companion see the
// result. The only decision that depends on it is when ends of slices are reported
// (slice_queue.h). Not thread-safe.
class StepClock {
 public:
  enum Use : std::size_t { kNothing, kCompute, kSwitch, kWait, kUses };

  // Begins a new step: all counts become zero, and the device waits for its first mini-batch.
  void restart() {
    spent_ = {};
    use_ = kWait;
    since_ = Clock::now();
  }
  // From now on, time is counted as `use`.
  void enter(Use use) {
    const auto now = Clock::now();
    spent_[use_] += now - since_;
    use_ = use;
    since_ = now;
  }
  // The time of this step that was counted as `use`, without the time since the last enter().
  Instant spent(Use use) const { return spent_[use]; }

 private:
  using Clock = std::chrono::steady_clock;
  std::array<Instant, kUses> spent_{};
  Use use_ = kNothing;
  Clock::time_point since_{};
};

}  // namespace es::actors::worker
