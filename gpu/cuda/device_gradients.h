#pragma once
// DeviceGradients manages the gradients of a device: the one that a local step writes, and the sums
// over ESTs that wait for their right siblings. It queues what GradientPath describes, bucket by
// bucket, directly behind the operator that completes a bucket, on streams of its own:
//
//   merge      slots[i] += slots[i - 1]
//   copy-out   what leaves the device, while the backward pass runs
//
//
// The sum over all ranks (GradientPath::whole) stays on the device, where gather() finds it for the
// update. If GradientTarget::device gives a place for a part, the part is copied there, and to host
// memory only if it is needed there too.
//
// Every EST writes its gradient to the same place, gradient(). The gradient of a right child is
// added from there. A gradient that has to wait is copied within device memory. A part is copied
// out from the place of its sum. So device memory holds gradient() and the waiting sums, whose
// number grows with the logarithm of the number of ESTs.
//
// If device memory has no room for all waiting sums, the ones kept last are in device memory and
// older ones in pinned host memory. A sum is copied out when an EST begins whose gradient will need
// its place; the copy runs beside the forward pass of that EST. The sum comes back bucket by
// bucket, beside the backward pass, into the part of gradient() that has already been merged. Two
// slots of device memory are enough for any number of ESTs.
//
// Threads: one at a time. Errors: those of the device. Memory: begin() allocates what a step needs
// more than the steps before; it is kept.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/cuda/device_pool.h"
#include "gpu/est/gradient_target.h"
#include "gpu/graph/step_runner.h"
#include "gpu/params/buckets.h"

namespace es::gpu::cuda {

class DeviceGradients {
 public:
  // `floats` is the length of a gradient. `sums_max` is the largest number of sums that wait in
  // device memory; 0: no limit. `pool` may contain sums over workers; it must outlive this object.
  // Error (failure): memory is missing.
  static Result<std::unique_ptr<DeviceGradients>> create(Device& device,
                                                         const std::vector<Bucket>& buckets,
                                                         std::int64_t floats,
                                                         std::uint32_t sums_max,
                                                         const DevicePool& pool);

  // The place to which operators write gradients. Its padding is +0 and stays +0.
  float* gradient() const { return gradient_; }
  GradientMemory memory() const;

  // --- A local step. `target` must exist until the last take() of the step. begin() is called
  // before the step's operators are queued, and queue_bucket() when the last operator of a bucket
  // has been queued, for one bucket after the other. Error (failure) of begin(): memory is missing;
  // nothing has begun. REQUIRES: all buckets of the previous step were taken, or synchronise() was
  // called after it.
  Status begin(const GradientTarget& target);
  void queue_bucket(Stream compute, std::size_t bucket);

  // Waits until a bucket has been merged along its path, and is in the target's host memory if it
  // leaves. For a whole sum, that memory gets a NaN at the beginning of the bucket, so that a
  // reader that expects values there notices the mistake.
  Status take(std::size_t bucket);

  // --- The whole sum that the last EST of a step has left. It stays until a step begins
  // (GradientPath::first) or until forget_whole(), whatever runs in between. sums[b] is the address
  // of bucket b in host memory or in the pool. gather() queues copies of all buckets' sums to
  // gradient(): buckets of the whole sum and of the pool come from where they are, the others from
  // host memory, where they must not change until they are copied. Afterwards the whole sum is
  // forgotten.
  void gather(Stream compute, std::span<const float* const> sums);
  // Copies the buckets that belong to the whole sum to their host memory.
  Status fetch(std::span<const float* const> sums);
  void forget_whole() { whole_ = {}; }
  // Waits until no work of a step that was given up is in progress.
  Status synchronise();

 private:
  struct BucketEvents {
    Event computed, merged, out;
  };
  // A waiting sum. Exactly one of the two pointers is set.
  struct Waiting {
    std::uint32_t slot = 0;
    float *device = nullptr, *host = nullptr;
  };

  DeviceGradients(Device& device, const std::vector<Bucket>& buckets, std::int64_t floats,
                  std::uint32_t sums_max, const DevicePool& pool)
      : device_(device), buckets_(buckets), floats_(floats), pool_(pool), sums_max_(sums_max) {}
  Status allocate();
  Status provide(std::uint32_t sums);
  Result<float*> device_memory(const char* what);
  Result<float*> host_memory(const char* what);
  void release(const Waiting& sum);
  float* take_place();
  float* spill_oldest();
  const Waiting& left(std::size_t i) const { return waiting_[waiting_.size() - i]; }
  void inspect(std::size_t bucket);
  bool is_whole(std::size_t bucket, const float* host) const;
  Status save_whole();
  float* merge(const Bucket& bucket);
  void queue_out(std::size_t bucket, const float* sum);
  void end_path();

  // These members are constant after create().
  Device& device_;
  const std::vector<Bucket> buckets_;
  const std::int64_t floats_;
  const DevicePool& pool_;
  std::uint32_t sums_max_;  // the limit, or the number that turned out to fit
  Stream merge_, copy_out_;
  Event spilled_;
  std::vector<BucketEvents> events_;
  float *gradient_ = nullptr, *staging_ = nullptr;  // staging_: pinned memory for what leaves

  // Free places; each has the size of a slot.
  std::vector<float*> free_device_, free_host_;
  std::uint32_t device_sums_ = 0, host_sums_ = 0;  // allocated so far, free ones included
  std::vector<Waiting> waiting_;                   // a stack: the last element is needed first

  // The local step in progress.
  const GradientTarget* target_ = nullptr;
  float* place_ = nullptr;    // place for a gradient that has to wait
  float* part_ = nullptr;     // where the part goes on the device; nullptr: nowhere
  bool part_leaves_ = false;  // the part is also copied to host memory

  // The whole sum. It lies in a free slot of device memory or in gradient(); if gradient() has been
  // overwritten, it is in saved_. `host` is the address by which the host knows it; nullptr: there
  // is no whole sum.
  struct Whole {
    const float* device = nullptr;
    float* host = nullptr;
  };
  Whole whole_;
  float* saved_ = nullptr;  // pinned; used by a job with one EST
};

}  // namespace es::gpu::cuda
