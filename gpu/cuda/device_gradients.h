#pragma once
// DeviceGradients: the gradients of a device: the one that a local step writes, and the sums over
// ESTs that wait for what they are added to. Queues what GradientPath says, bucket by bucket, right
// behind the operator that completes a bucket, on streams of its own:
//
//   merge      slots[i] += slots[i - 1]
//   copy-out   what leaves, while the backward pass goes on
//
// The sum over all ranks (GradientPath::whole) stays: gather() finds it for the update. A part for
// which GradientTarget::device has a place is copied there, and to host memory only if that is
// wanted too.
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
  // `floats`: of a gradient. `sums_max`: that wait in device memory at most; 0: any number. `pool`:
  // what sums over workers may lie in; outlives this. Error (failure): missing memory.
  static Result<std::unique_ptr<DeviceGradients>> create(Device& device,
                                                         const std::vector<Bucket>& buckets,
                                                         std::int64_t floats,
                                                         std::uint32_t sums_max,
                                                         const DevicePool& pool);

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
  // memory if it leaves. Of a whole sum that memory has NaN at the bucket's begin, for who reads it
  // all the same.
  Status take(std::size_t bucket);

  // --- The whole sum that a step's last EST left. It stays until a step begins
  // (GradientPath::first) or forget_whole(), whatever runs between. sums[b]: bucket b, in host
  // memory or the pool's. Queues all buckets' sums to gradient(): those of the whole sum, and of
  // the pool, from where they are, others from host memory; there they must stay until they are
  // copied. Afterwards the whole sum is forgotten.
  void gather(Stream compute, std::span<const float* const> sums);
  // Fills the host memory of those that are the whole sum's.
  Status fetch(std::span<const float* const> sums);
  void forget_whole() { whole_ = {}; }
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

  // Constant after create().
  Device& device_;
  const std::vector<Bucket> buckets_;
  const std::int64_t floats_;
  const DevicePool& pool_;
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
  float* place_ = nullptr;    // of a gradient that has to wait
  float* part_ = nullptr;     // where a part goes on the device; nullptr: nowhere
  bool part_leaves_ = false;  // for host memory

  // The whole sum: in a free slot of device memory, or gradient(); or, when something else has been
  // written there, in saved_. host: where the host knows it, nullptr: there is none.
  struct Whole {
    const float* device = nullptr;
    float* host = nullptr;
  };
  Whole whole_;
  float* saved_ = nullptr;  // pinned; where a job has one EST
};

}  // namespace es::gpu::cuda
