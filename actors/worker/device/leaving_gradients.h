#pragma once
// Gradients that leave early: with one EST and sharded state a worker gives the memory of a bucket
// back as soon as its part was read, so it never has a whole gradient.
#include <cstdint>
#include <map>

#include "gpu/graph/leaving.h"
#include "gpu/params/buckets.h"

namespace es::actors::worker {

// LeavingGradients counts the finished buckets of the running step whose parts others still read.
// The local step goes on while they have at most gpu::kLeavingBytes. Bucket 0 does not count: it
// leaves when the local step ends (StepResults::without_loss), so nothing may wait for it.
//
// No wait of this kind is in vain. Let b be the lowest bucket whose sum is not made. A worker that
// waits has finished b, since what counts is in buckets that are not read; the others compute b or
// what comes before it. So in the end all have finished b, and its sum is made by workers that wait
// or have ended their local steps. Only the device thread uses this class.
class LeavingGradients {
 public:
  void begin_step() { finished_.clear(); }
  void add(std::uint32_t bucket, const gpu::Bucket& floats) {
    if (bucket != 0) finished_[bucket] = floats.floats() * static_cast<std::int64_t>(sizeof(float));
  }
  void read(std::uint32_t bucket) { finished_.erase(bucket); }
  bool have_room() const {
    std::int64_t bytes = 0;
    for (const auto& [bucket, size] : finished_) bytes += size;
    return bytes <= gpu::kLeavingBytes;
  }

 private:
  std::map<std::uint32_t, std::int64_t> finished_;  // by bucket, in bytes
};

}  // namespace es::actors::worker
