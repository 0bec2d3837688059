#pragma once
// BucketReduction sums the contributions to a bucket, on the device or on the host.
//
// Both places add in the same order (gpu/est/reduce_tree.h), so they give the same bits. Only the
// device thread uses this class.
#include <cstdint>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "actors/worker/device/gradient_store.h"
#include "gpu/engine/engine.h"
#include "gpu/est/reduce_tree.h"

namespace es::actors::worker {

class BucketReduction {
 public:
  // The engine must outlive this object. Throws gpu::NoMemory.
  BucketReduction(gpu::Engine& engine, std::uint32_t max_p);

  // Sums `parts`, which may be in device memory or in host memory, and returns where members find
  // the sum, in the memory of `gradients`. If the sum is on the device, `host_copies` says whether
  // it is copied to host memory too. REQUIRES: the parts are what gpu::reduce_parts() requires.
  // Errors: those of the device, or shared memory is full.
  Result<protocol::Bulk> sum(std::uint32_t bucket, std::vector<gpu::GradientPart> parts,
                             GradientStore& gradients, bool host_copies);

  // Sums `parts` over `ranks` in the place of one of them, `into`, which belongs to `gradients` and
  // which no other worker reads. Returns where others find the sum. The rest is as for sum().
  Result<protocol::Bulk> add_to(const protocol::Bulk& into, RankRange ranks,
                                std::vector<gpu::GradientPart> parts, GradientStore& gradients,
                                bool host_copies);

  // Copies bulk data that is only in device memory to its segment in `gradients`. Error: the device
  // is lost. REQUIRES: the data belongs to `gradients`.
  Status copy_to_segments(protocol::PeerMessage& message, GradientStore& gradients);

 private:
  bool is_on_device(const float* data) const;
  Result<protocol::Bulk> sum_on_device(std::uint32_t bucket, std::vector<gpu::GradientPart>& parts,
                                       GradientStore& gradients, bool host_copies,
                                       const gpu::cuda::DevicePool::Block& out);
  Result<protocol::Bulk> sum_on_host(std::uint32_t bucket, std::vector<gpu::GradientPart>& parts,
                                     GradientStore& gradients);
  Status add_on_device(RankRange ranks, std::vector<gpu::GradientPart>& parts, std::int64_t floats,
                       float* out, float* host_copy);
  Status add_on_host(RankRange ranks, std::vector<gpu::GradientPart>& parts, std::int64_t floats,
                     float* out);
  gpu::AlignedBuffer copy_of(const float* device, std::int64_t floats);

  gpu::Engine& engine_;
  std::uint32_t max_p_;
  gpu::AlignedBuffer host_workspace_;
};

}  // namespace es::actors::worker
