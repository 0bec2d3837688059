#pragma once
// GradientStore: the shared memory that one worker's gradients live in, under one generation.
//
// Two kinds of memory, both created when asked for and dropped as a whole with the generation:
//   slots   whole flat gradients: on a CPU written by the local steps and merged in place, of a GPU
//           the parts that leave it (gpu/est/gradient_target.h).
//           Peers that own a bucket read contributions here until the step commits.
//           Parts of a GPU lie in its memory too, where there is room: they go to other GPUs from
//           there, and to host memory only when somebody wants them there.
//   sums    one per bucket that this worker owns: the reduced bucket. Members read it for their
//           update. It is written again only when all ranks have contributed to the next step,
//           which proves that all members have committed this one.
// Used by the device's thread only.
#include <map>
#include <memory>
#include <span>
#include <string>

#include "actors/data_plane/segment.h"
#include "actors/protocol/messages.h"
#include "gpu/cuda/device_pool.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

class GradientStore {
 public:
  GradientStore(JobId job, Incarnation incarnation, Generation generation,
                std::int64_t total_floats)
      : job_(std::move(job)),
        incarnation_(incarnation),
        generation_(generation),
        total_floats_(total_floats) {}

  // A whole flat gradient, 64-byte aligned; the same address on every call.
  // Error (failure): shared memory is full.
  Result<float*> slot(std::uint32_t slot);
  // All of these. Error: as slot.
  Status take_slots(std::span<const std::uint32_t> slots);
  // Blocks of device memory for these, as many as half of the pool has room for; the other half is
  // for what comes from peers. For a step: `host_copies` says whether parts that have a block are
  // wanted in host memory too.
  void take_device_slots(std::span<const std::uint32_t> slots, gpu::cuda::DevicePool& pool,
                         bool host_copies);
  float* device_slot(std::uint32_t slot) const;  // nullptr: it has none
  bool in_host(std::uint32_t slot) const;
  // The reduced bucket of this many floats.
  Result<float*> sum(std::uint32_t bucket, std::int64_t floats);

  // How peers find floats [begin, begin + floats) of a slot, or a whole sum. REQUIRES: created.
  protocol::Bulk slot_bulk(std::uint32_t slot, std::int64_t begin, std::int64_t floats) const;
  protocol::Bulk sum_bulk(std::uint32_t bucket) const;
  // Where those floats are here; nullptr: not this worker's, or not of this generation.
  float* own(const protocol::Bulk& bulk) const;

 private:
  Result<float*> create(std::map<std::uint32_t, std::unique_ptr<Segment>>& segments,
                        std::uint32_t index, const char* part, std::int64_t floats);

  JobId job_;
  Incarnation incarnation_;
  Generation generation_;
  std::int64_t total_floats_;
  std::map<std::uint32_t, std::unique_ptr<Segment>> slots_, sums_;
  std::map<std::uint32_t, gpu::cuda::DevicePool::Block> device_slots_;
  bool host_copies_ = true;
};

}  // namespace es::actors::worker
