#include "actors/worker/device/bucket_reduction.h"

#include <algorithm>

#include "actors/worker/core/bulk_pull.h"
#include "gpu/cuda/device_reduction.h"
#include "proto/base/check.h"
#include "proto/base/kill_point.h"

namespace es::actors::worker {

BucketReduction::BucketReduction(gpu::Engine& engine, std::uint32_t max_p)
    : engine_(engine), max_p_(max_p), host_workspace_(gpu::reduce_workspace_floats(max_p)) {}

bool BucketReduction::is_on_device(const float* data) const {
  gpu::cuda::DeviceReduction* const reduction = engine_.reduction();
  return reduction != nullptr && reduction->pool()->contains(data);
}

// Sums on the device if a part is there and the pool has room for the sum, otherwise on the host.
Result<protocol::Bulk> BucketReduction::sum(std::uint32_t bucket,
                                            std::vector<gpu::GradientPart> parts,
                                            GradientStore& gradients, bool host_copies) {
  // Host and device add in the same order and round in the same way, so the place of the sum does
  // not change its bits.
  const bool any = std::any_of(parts.begin(), parts.end(), [this](const gpu::GradientPart& part) {
    return is_on_device(part.data);
  });
  if (!any) return sum_on_host(bucket, parts, gradients);
  const auto bytes = static_cast<std::uint64_t>(engine_.buckets()[bucket].floats()) * sizeof(float);
  const auto out = engine_.reduction()->pool()->take(bytes);
  return out ? sum_on_device(bucket, parts, gradients, host_copies, out)
             : sum_on_host(bucket, parts, gradients);
}

Result<protocol::Bulk> BucketReduction::sum_on_device(std::uint32_t bucket,
                                                      std::vector<gpu::GradientPart>& parts,
                                                      GradientStore& gradients, bool host_copies,
                                                      const gpu::cuda::DevicePool::Block& out) {
  const std::int64_t floats = engine_.buckets()[bucket].floats();
  // The segment exists even if nothing is copied to it now: a member may need the sum there later
  // (copy_to_segments).
  const Result<float*> host = gradients.sum(bucket, floats);
  if (!host) return host.error();
  ES_RETURN_IF_ERROR(add_on_device({0, max_p_}, parts, floats, reinterpret_cast<float*>(out.get()),
                                   host_copies ? *host : nullptr));
  protocol::Bulk bulk = gradients.sum_bulk(bucket);
  bulk.device = out;
  bulk.in_host = host_copies;
  return bulk;
}

Result<protocol::Bulk> BucketReduction::sum_on_host(std::uint32_t bucket,
                                                    std::vector<gpu::GradientPart>& parts,
                                                    GradientStore& gradients) {
  const std::int64_t floats = engine_.buckets()[bucket].floats();
  const Result<float*> sum = gradients.sum(bucket, floats);
  if (!sum) return sum.error();
  ES_RETURN_IF_ERROR(add_on_host({0, max_p_}, parts, floats, *sum));
  return gradients.sum_bulk(bucket);
}

Result<protocol::Bulk> BucketReduction::add_to(const protocol::Bulk& into, RankRange ranks,
                                               std::vector<gpu::GradientPart> parts,
                                               GradientStore& gradients, bool host_copies) {
  const auto floats = static_cast<std::int64_t>(into.bytes / sizeof(float));
  float* const host = gradients.own(into);
  ES_CHECK(host != nullptr);
  protocol::Bulk sum = into;
  if (float* const device = gradients.own_on_device(into)) {
    sum.in_host = host_copies;
    ES_RETURN_IF_ERROR(add_on_device(ranks, parts, floats, device, host_copies ? host : nullptr));
  } else {
    ES_RETURN_IF_ERROR(add_on_host(ranks, parts, floats, host));
  }
  return sum;
}

Status BucketReduction::add_on_device(RankRange ranks, std::vector<gpu::GradientPart>& parts,
                                      std::int64_t floats, float* out, float* host_copy) {
  gpu::cuda::DeviceReduction& device = *engine_.reduction();
  gpu::reduce_parts(engine_.gradient_order(), max_p_, ranks, parts, floats, out, device.workspace(),
                    device);
  // Members that have no channel from this worker read the sum from the segment.
  if (host_copy != nullptr) device.copy_out(host_copy, out, floats);
  // The sum is announced to others, who read it without waiting for this device. So the host waits
  // here for the end of the kernels and the copy.
  ES_RETURN_IF_ERROR(device.synchronise());
  kill_point("reduce.on_device");
  return {};
}

Status BucketReduction::add_on_host(RankRange ranks, std::vector<gpu::GradientPart>& parts,
                                    std::int64_t floats, float* out) {
  std::vector<gpu::AlignedBuffer> copies;
  for (gpu::GradientPart& part : parts)
    if (is_on_device(part.data)) part.data = copies.emplace_back(copy_of(part.data, floats)).data();
  // The copies above are complete only if the device still works.
  ES_RETURN_IF_ERROR(engine_.device_status());
  gpu::HostAdder host(engine_.kernels());
  gpu::reduce_parts(engine_.gradient_order(), max_p_, ranks, parts, floats, out,
                    host_workspace_.data(), host);
  return {};
}

// Copies a gradient to host memory. The caller checks the status of the device for errors.
gpu::AlignedBuffer BucketReduction::copy_of(const float* device, std::int64_t floats) {
  auto copy = gpu::AlignedBuffer::uninitialised(floats, "a copy of a gradient");
  engine_.reduction()->copy_out(copy.data(), device, floats);
  (void)engine_.reduction()->synchronise();
  return copy;
}

Status BucketReduction::copy_to_segments(protocol::PeerMessage& message, GradientStore& gradients) {
  gpu::cuda::DeviceReduction& device = *engine_.reduction();
  for (protocol::Bulk* const bulk : bulks_of(message)) {
    // The segment has the bytes already, for example because another member needed them.
    if (bulk->in_host) continue;
    float* const host = gradients.own(*bulk);
    ES_CHECK(host != nullptr);
    device.copy_out(host, reinterpret_cast<const float*>(bulk->device.get()),
                    static_cast<std::int64_t>(bulk->bytes / sizeof(float)));
    bulk->in_host = true;
  }
  return device.synchronise();
}

}  // namespace es::actors::worker
