#pragma once
// DeviceGradients: the gradients of a device: the one that a local step writes, and the sums over
// ESTs that wait for what they are added to. Queues what GradientPath says, bucket by bucket, right
// behind the operator that completes a bucket, on streams of its own:
//
//   merge      slots[i] += slots[i - 1]
//   copy-out   what leaves, while the backward pass goes on
//
// Every EST writes its gradient to the same place, gradient(). One that is a right child is added
// from there; one that has to wait is copied, in device memory. A part is copied out from where its
// sum lies. So device memory holds gradient() and the sums that wait: log2 many.
//
// Where it has no room for them, the sums kept last are in device memory and older ones in pinned
// host memory. A sum is copied out when an EST begins whose gradient will need its place, beside
// that EST's forward pass; it comes back bucket by bucket, beside the backward pass, into the part
// of gradient() that has been merged. Two slots of device memory do for any number of ESTs.
//
// Threads: one at a time. Errors: the device's. Memory: begin() takes what a step needs more than
// those before; it stays.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/est/gradient_target.h"
#include "gpu/graph/step_runner.h"
#include "gpu/params/buckets.h"

namespace es::gpu::cuda {

class DeviceGradients {
 public:
  // `floats`: of a gradient. `sums_max`: that wait in device memory at most; 0: any number.
  // Error (failure): missing memory.
  static Result<std::unique_ptr<DeviceGradients>> create(Device& device,
                                                         const std::vector<Bucket>& buckets,
                                                         std::int64_t floats,
                                                         std::uint32_t sums_max);

  // Where operators write gradients. The padding is +0 and stays so.
  float* gradient() const { return gradient_; }
  GradientMemory memory() const;

  // --- A local step. `target` must stay until its last take(). begin() comes before its operators
  // are queued, queue_bucket() when the last operator of a bucket is queued; bucket after bucket.
  // Error (failure), from begin(): missing memory; nothing has begun. REQUIRES: all buckets of the
  // step before have been taken, or synchronise() came after it.
  Status begin(const GradientTarget& target);
  void queue_bucket(Stream compute, std::size_t bucket);

  // The host waits for a bucket: afterwards it has gone its path, and is in the target's host
  // memory if it leaves.
  Status take(std::size_t bucket);

  // A bucket of the part that the last local step left, in device memory; `host`: where it lies in
  // host memory. nullptr: something else lies there. Stays until the next begin().
  const float* part_here(std::size_t bucket, const float* host) const;
  // gradient() is about to hold something else.
  void forget_part() { part_ = part_host_ = nullptr; }
  // Nothing of a step that is given up is under way any more.
  Status synchronise();

 private:
  struct BucketEvents {
    Event computed, merged, out;
  };
  // A sum that waits. Exactly one of the two is set.
  struct Waiting {
    std::uint32_t slot = 0;
    float *device = nullptr, *host = nullptr;
  };

  DeviceGradients(Device& device, const std::vector<Bucket>& buckets, std::int64_t floats,
                  std::uint32_t sums_max)
      : device_(device), buckets_(buckets), floats_(floats), sums_max_(sums_max) {}
  Status allocate();
  Status provide(std::uint32_t sums);
  Result<float*> device_memory(const char* what);
  Result<float*> host_memory(const char* what);
  void release(const Waiting& sum);
  float* take_place();
  float* spill_oldest();
  const Waiting& left(std::size_t i) const { return waiting_[waiting_.size() - i]; }
  void inspect(std::size_t bucket);
  float* merge(const Bucket& bucket);
  void queue_out(std::size_t bucket, const float* sum);
  void end_path();

  // Constant after create().
  Device& device_;
  const std::vector<Bucket> buckets_;
  const std::int64_t floats_;
  std::uint32_t sums_max_;  // or what turned out to fit
  Stream merge_, copy_out_;
  Event spilled_;
  std::vector<BucketEvents> events_;
  float *gradient_ = nullptr, *staging_ = nullptr;  // staging: pinned, of what leaves

  // A slot each.
  std::vector<float*> free_device_, free_host_;
  std::uint32_t device_sums_ = 0, host_sums_ = 0;  // taken so far, free ones included
  std::vector<Waiting> waiting_;                   // a stack: the last is needed first

  // The local step in progress.
  const GradientTarget* target_ = nullptr;
  float* place_ = nullptr;  // of a gradient that has to wait

  // The part that it left, if it is one of several ESTs, or of the first: no other is the whole
  // sum.
  const float *part_ = nullptr, *part_host_ = nullptr;
};

}  // namespace es::gpu::cuda
