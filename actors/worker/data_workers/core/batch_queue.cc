#include "actors/worker/data_workers/core/batch_queue.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::actors {

BatchQueue::BatchQueue(std::uint32_t slots, std::uint32_t loaders)
    : slots_(slots), free_loaders_(loaders) {
  ES_CHECK(slots > 0 && loaders > 0);
  for (std::uint32_t slot = slots; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

std::vector<Fill> BatchQueue::request(Version step, VirtualRank rank) {
  waiting_.push_back({step, rank});
  return serve();
}

std::vector<Fill> BatchQueue::next_slice(Version step, VirtualRank rank) {
  next_slice_ = {step, rank};
  return serve();
}

std::vector<Fill> BatchQueue::loader_free() {
  ++free_loaders_;
  return serve();
}

std::vector<Fill> BatchQueue::slot_free(std::uint32_t slot) {
  free_slots_.push_back(slot);
  ES_CHECK(free_slots_.size() <= slots_);
  return serve();
}

// Returns the waiting request that can be served now, or the end.
std::vector<BatchQueue::Request>::iterator BatchQueue::servable() {
  if (free_slots_.empty() || free_loaders_ == 0) return waiting_.end();
  // The last slot is kept for the slice that the device runs next. If a later slice took it, the
  // device would wait for a slot that is returned only after that later slice.
  if (free_slots_.size() == 1) return std::find(waiting_.begin(), waiting_.end(), next_slice_);
  return std::min_element(waiting_.begin(), waiting_.end());
}

std::vector<Fill> BatchQueue::serve() {
  std::vector<Fill> fills;
  for (auto at = servable(); at != waiting_.end(); at = servable()) {
    fills.push_back({at->step, at->rank, free_slots_.back()});
    free_slots_.pop_back();
    --free_loaders_;
    waiting_.erase(at);
  }
  return fills;
}

}  // namespace es::actors
