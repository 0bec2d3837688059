#pragma once
// GradientStore: the shared memory that holds the gradients of one worker under one generation.
//
// There are two kinds of memory. Both are created on first use and dropped together with the
// generation.
//
// * Slots are whole flat gradients. On a CPU the local steps write them and merge them in place. On
//   a GPU they hold the parts that leave the GPU (gpu/est/gradient_target.h), and these parts are
//   in device memory too, if there is room. Other GPUs get them from there, and they are copied to
//   host memory only if some member needs them there. Owners of buckets read contributions from the
//   slots until the step is committed, or until the sum of the bucket is made, if the memory of a
//   bucket is given back then (release()).
// * Sums are the reduced buckets, one for each bucket that this worker owns. Members read them for
//   their update. A sum is overwritten only when all ranks have contributed to the next step, which
//   proves that all members have committed this one.
//
// Only the device thread uses this class.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "actors/base/data_plane/segment.h"
#include "actors/base/protocol/core/messages.h"
#include "gpu/cuda/device_pool.h"
#include "proto/base/ids.h"

namespace es::actors::worker {

class GradientStore {
 public:
  GradientStore(JobId job, Incarnation incarnation, Generation generation,
                std::int64_t trained_floats)
      : job_(std::move(job)),
        incarnation_(incarnation),
        generation_(generation),
        trained_floats_(trained_floats) {}

  // Returns a whole flat gradient, aligned to 64 bytes. Its address does not change. Error
  // (failure): shared memory is full.
  Result<float*> slot(std::uint32_t slot);
  // The same without memory until it is written (Segment::reserve).
  Result<float*> reserved_slot(std::uint32_t slot);
  // The memory of these floats of a slot returns to the system. Their values are lost. REQUIRES:
  // the slot exists.
  void release(std::uint32_t slot, std::int64_t begin, std::int64_t floats);
  // The bytes of all slots that have memory at present.
  std::uint64_t slot_bytes() const;
  // Creates all of these slots. Error: as for slot().
  Status take_slots(std::span<const std::uint32_t> slots);
  // Takes blocks of device memory for these slots, at most half of the pool's capacity; the other
  // half is for data that comes from peers. Call it for each step: `host_copies` says whether parts
  // that have a block are needed in host memory too.
  void take_device_slots(std::span<const std::uint32_t> slots, gpu::cuda::DevicePool& pool,
                         bool host_copies);
  float* device_slot(std::uint32_t slot) const;  // nullptr if the slot has none
  bool in_host(std::uint32_t slot) const;
  // Returns the memory of a reduced bucket with `floats` elements. Error: as for slot().
  Result<float*> sum(std::uint32_t bucket, std::int64_t floats);

  // Gives the sums away; the store has none afterwards.
  std::map<std::uint32_t, std::unique_ptr<Segment>> take_sums() { return std::exchange(sums_, {}); }

  // How peers find the elements [begin, begin + floats) of a slot, or a whole sum. REQUIRES: it
  // exists.
  protocol::Bulk slot_bulk(std::uint32_t slot, std::int64_t begin, std::int64_t floats) const;
  protocol::Bulk sum_bulk(std::uint32_t bucket) const;
  // The address of this data here; nullptr if it belongs to another worker or generation.
  float* own(const protocol::Bulk& bulk) const;
  // The same for a part of a slot in device memory; nullptr if it is not there.
  float* own_on_device(const protocol::Bulk& bulk) const;

 private:
  Result<Segment*> reserve(std::map<std::uint32_t, std::unique_ptr<Segment>>& segments,
                           std::uint32_t index, const char* part, std::int64_t floats);

  JobId job_;
  Incarnation incarnation_;
  Generation generation_;
  std::int64_t trained_floats_;
  std::map<std::uint32_t, std::unique_ptr<Segment>> slots_, sums_;
  std::map<std::uint32_t, gpu::cuda::DevicePool::Block> device_slots_;
  bool host_copies_ = true;
};

}  // namespace es::actors::worker
