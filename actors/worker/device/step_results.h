#pragma once
// StepResults: what the local steps of one global step have produced on this device so far, apart
// from their gradients. Only the device thread uses it.
#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "gpu/est/est_context.h"
#include "gpu/est/gradient_tree.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

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

}  // namespace es::actors::worker
