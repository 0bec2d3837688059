#include "gpu/cuda/device_gradients.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "proto/base/check.h"

namespace es::gpu::cuda {
Result<std::unique_ptr<DeviceGradients>> DeviceGradients::create(Device& device,
                                                                 const std::vector<Bucket>& buckets,
                                                                 std::int64_t floats,
                                                                 std::uint32_t sums_max,
                                                                 const DevicePool& pool) {
  std::unique_ptr<DeviceGradients> gradients(
      new DeviceGradients(device, buckets, floats, sums_max, pool));
  ES_RETURN_IF_ERROR(gradients->allocate());
  return gradients;
}

Status DeviceGradients::allocate() {
  ES_SET(merge_, device_.make_stream());
  ES_SET(copy_out_, device_.make_stream());
  ES_SET(spilled_, device_.make_event());
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    BucketEvents events;
    ES_SET(events.computed, device_.make_event());
    ES_SET(events.merged, device_.make_event());
    ES_SET(events.out, device_.make_event());
    events_.push_back(events);
  }
  ES_SET(gradient_, device_memory("a gradient"));
  ES_SET(staging_, host_memory("a gradient"));
  // The padding of the gradient must be +0. No kernel writes it, so it is set once here.
  device_.kernels().fill_zero(merge_, floats_, gradient_);
  return device_.synchronise(merge_);
}

Result<float*> DeviceGradients::device_memory(const char* what) {
  const auto memory = device_.allocate(bytes_of(std::max<std::int64_t>(floats_, 1)), what);
  if (!memory) return memory.error();
  return static_cast<float*>(*memory);
}

Result<float*> DeviceGradients::host_memory(const char* what) {
  const auto memory = device_.allocate_host(bytes_of(std::max<std::int64_t>(floats_, 1)), what);
  if (!memory) return memory.error();
  return static_cast<float*>(*memory);
}

GradientMemory DeviceGradients::memory() const {
  return {.device_floats = (1 + device_sums_) * floats_, .pinned_floats = host_sums_ * floats_};
}

// Allocates memory for this number of waiting sums: on the device as far as possible, at least one.
Status DeviceGradients::provide(std::uint32_t sums) {
  // The first place must exist, because merging reads and writes the sum that was kept last in
  // device memory. Further places may be taken only from memory that nothing else will need.
  while (device_sums_ < sums && (sums_max_ == 0 || device_sums_ < sums_max_)) {
    const bool needed = device_sums_ == 0;
    const bool room = needed || device_.spare_bytes() >= bytes_of(floats_);
    const Result<float*> place = room ? device_memory("a sum of gradients over ESTs")
                                      : Result<float*>(failure("the rest is kept in reserve"));
    ES_RETURN_IF_ERROR(device_.check());
    if (!place && needed) return place.error();
    if (!place) {
      // There is no second attempt in later steps: the number that fits now is the limit from here
      // on.
      sums_max_ = device_sums_;
      break;
    }
    free_device_.push_back(*place);
    ++device_sums_;
  }
  for (; device_sums_ + host_sums_ < sums; ++host_sums_) {
    float* place = nullptr;
    ES_SET(place, host_memory("a sum of gradients over ESTs"));
    free_host_.push_back(place);
  }
  return {};
}

void DeviceGradients::release(const Waiting& sum) {
  if (sum.device != nullptr) free_device_.push_back(sum.device);
  if (sum.host != nullptr) free_host_.push_back(sum.host);
}

float* DeviceGradients::take_place() {
  if (free_device_.empty()) return spill_oldest();
  float* const place = free_device_.back();
  free_device_.pop_back();
  return place;
}

// Moves the oldest sum in device memory to host memory and returns its place. The copy is queued on
// the stream copy-out, which has already waited for all merges. The forward pass of the EST
// continues beside it; only merging waits for it.
float* DeviceGradients::spill_oldest() {
  const auto oldest = std::find_if(waiting_.begin(), waiting_.end(),
                                   [](const Waiting& sum) { return sum.device != nullptr; });
  ES_CHECK(oldest != waiting_.end() && !free_host_.empty());
  float* const place = oldest->device;
  oldest->device = nullptr;
  oldest->host = free_host_.back();
  free_host_.pop_back();
  device_.copy_out(copy_out_, oldest->host, place, bytes_of(floats_));
  device_.record(spilled_, copy_out_);
  device_.wait(merge_, spilled_);
  return place;
}

Status DeviceGradients::begin(const GradientTarget& target) {
  const GradientPath& path = target.path;
  // A new global step begins without waiting sums. If the previous step was given up, its sums may
  // contain a bad gradient.
  if (path.first) {
    for (const Waiting& sum : waiting_) release(sum);
    waiting_.clear();
    forget_whole();
  }
  ES_RETURN_IF_ERROR(provide(path.kept_max));
  // A job with one EST has no merge, so its whole sum stays in gradient(). If another local step
  // (an audit) runs before the update, save_whole() first copies the sum to this memory.
  const bool stays_in_place = path.whole && path.slots.size() == 1;
  if (stays_in_place && saved_ == nullptr) ES_SET(saved_, host_memory("a gradient"));
  ES_RETURN_IF_ERROR(save_whole());
  target_ = &target;
  // Only a gradient that is not merged and has to wait needs a place. The result of a merge takes
  // the place of the sum to its left.
  place_ = path.slots.size() == 1 && !path.leaves ? take_place() : nullptr;
  const bool is_part = path.leaves && !path.whole;
  part_ = is_part && target.device ? target.device(path.slots.back()) : nullptr;
  part_leaves_ = is_part && target.in_host;
  ES_CHECK(!is_part || part_ != nullptr || part_leaves_);
  return {};
}

void DeviceGradients::queue_bucket(Stream compute, std::size_t b) {
  const Bucket& bucket = buckets_[b];
  // Merging runs on a stream of its own and waits for the operators of this bucket. The compute
  // stream never waits for it, so the backward pass continues.
  device_.record(events_[b].computed, compute);
  device_.wait(merge_, events_[b].computed);
  if (target_->inspect) inspect(b);
  const float* const sum = merge(bucket);
  if (place_ != nullptr)
    device_.copy(merge_, place_ + bucket.begin, sum, bytes_of(bucket.floats()));
  queue_out(b, sum);
  if (b + 1 == buckets_.size()) end_path();
}

// Called rarely: for an audit, or for a fault that a test injects.
void DeviceGradients::inspect(std::size_t b) {
  const Bucket& bucket = buckets_[b];
  float *const device = gradient_ + bucket.begin, *const host = staging_ + bucket.begin;
  device_.copy_out(merge_, host, device, bytes_of(bucket.floats()));
  (void)device_.synchronise(merge_);  // a device error is reported by a later call
  target_->inspect(static_cast<std::uint32_t>(b), host);
  device_.copy_in(merge_, device, host, bytes_of(bucket.floats()));
}

// Queues the additions for one bucket and returns the place of its sum. The sum that was kept last
// is always in device memory. A sum in host memory is therefore copied into a bucket of gradient()
// that has already been added to another sum and is free.
float* DeviceGradients::merge(const Bucket& bucket) {
  const DeviceKernels& k = device_.kernels();
  float* const own = gradient_ + bucket.begin;
  float* sum = own;
  for (std::size_t i = 1; i < target_->path.slots.size(); ++i) {
    if (left(i).device != nullptr) {
      float* const merged = left(i).device + bucket.begin;
      // The waiting sum covers the lower ranks, so it is the left operand, as the canonical tree
      // requires.
      k.add(merge_, bucket.floats(), merged, sum, merged);
      sum = merged;
    } else {
      ES_CHECK(sum != own);
      device_.copy_in(merge_, own, left(i).host + bucket.begin, bytes_of(bucket.floats()));
      // The older sum covers the lower ranks, so it is the left operand.
      k.add(merge_, bucket.floats(), own, sum, sum);
    }
  }
  return sum;
}

void DeviceGradients::queue_out(std::size_t b, const float* sum) {
  const Bucket& bucket = buckets_[b];
  // The copy to the host has a stream of its own, so the next bucket is merged while this one
  // leaves.
  device_.record(events_[b].merged, merge_);
  device_.wait(copy_out_, events_[b].merged);
  if (part_ != nullptr)
    device_.copy(copy_out_, part_ + bucket.begin, sum, bytes_of(bucket.floats()));
  if (part_leaves_)
    device_.copy_out(copy_out_, staging_ + bucket.begin, sum, bytes_of(bucket.floats()));
  device_.record(events_[b].out, copy_out_);
}

// The whole path is queued. Records which sum waits from now on and which places are free.
void DeviceGradients::end_path() {
  const GradientPath& path = target_->path;
  Waiting sum{.slot = path.slots.back(), .device = place_, .host = nullptr};
  for (std::size_t i = 1; i < path.slots.size(); ++i) {
    Waiting taken = waiting_.back();
    ES_CHECK(taken.slot == path.slots[i]);
    waiting_.pop_back();
    // The new sum was accumulated in the place of this one.
    if (taken.device != nullptr) std::swap(sum.device, taken.device);
    release(taken);
  }
  if (path.whole) whole_ = {sum.device != nullptr ? sum.device : gradient_, target_->last_slot()};
  // A part has been queued to leave or is the whole sum. In both cases its place is free for the
  // next EST, since take() waits for the copies before the step ends. whole_ still has the address
  // of the whole sum.
  if (path.leaves) {
    release(sum);
  } else {
    waiting_.push_back(sum);
  }
}

Status DeviceGradients::take(std::size_t b) {
  ES_RETURN_IF_ERROR(device_.synchronise(events_[b].out));
  const Bucket& bucket = buckets_[b];
  if (target_->path.whole) {
    // The values stay on the device. NaN marks the place in host memory.
    target_->last_slot()[bucket.begin] = std::numeric_limits<float>::quiet_NaN();
  } else if (part_leaves_) {
    std::memcpy(target_->last_slot() + bucket.begin, staging_ + bucket.begin,
                bytes_of(bucket.floats()));
  }
  return {};
}

bool DeviceGradients::is_whole(std::size_t b, const float* host) const {
  return whole_.host != nullptr && host == whole_.host + buckets_[b].begin;
}

// The operators of the next local step are about to overwrite gradient(). If the whole sum lies
// there, it is saved first. Called rarely: for an audit of a job with one EST.
Status DeviceGradients::save_whole() {
  if (whole_.device != gradient_) return {};
  device_.copy_out(merge_, saved_, gradient_, bytes_of(floats_));
  ES_RETURN_IF_ERROR(device_.synchronise(merge_));
  whole_.device = nullptr;
  return {};
}

void DeviceGradients::gather(Stream compute, std::span<const float* const> sums) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const std::int64_t begin = buckets_[b].begin;
    const std::size_t bytes = bytes_of(buckets_[b].floats());
    float* const to = gradient_ + begin;
    // No branch copies a whole sum that lies in gradient(), because the update reads it there.
    if (pool_.contains(sums[b])) {
      device_.copy(compute, to, sums[b], bytes);
    } else if (!is_whole(b, sums[b])) {
      device_.copy_in(compute, to, sums[b], bytes);
    } else if (whole_.device == nullptr) {
      device_.copy_in(compute, to, saved_ + begin, bytes);
    } else if (whole_.device != gradient_) {
      device_.copy(compute, to, whole_.device + begin, bytes);
    }
  }
  forget_whole();
}

Status DeviceGradients::fetch(std::span<const float* const> sums) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (!is_whole(b, sums[b])) continue;
    const std::int64_t begin = buckets_[b].begin;
    const float* const from = whole_.device != nullptr ? whole_.device : saved_;
    device_.copy_out(merge_, whole_.host + begin, from + begin, bytes_of(buckets_[b].floats()));
  }
  return device_.synchronise(merge_);
}

Status DeviceGradients::synchronise() {
  forget_whole();
  ES_RETURN_IF_ERROR(device_.synchronise(merge_));
  return device_.synchronise(copy_out_);
}

}  // namespace es::gpu::cuda
