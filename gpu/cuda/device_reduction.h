#pragma once
// DeviceReduction: sums over workers on a device, and the memory that gradients on their way
// between workers have there.
//
// Parts that are in the pool are added where they are, others, which are in host memory, are copied
// in block by block.
// The order is reduce_tree.h's, the kernel is the canonical `add`, so the bits are the host's.
//
// Memory: provide() takes it once, kPoolGradients gradients or what can be spared. Not before the
// first update has its moments and the sums over ESTs are there, which need it more; and when this
// worker has all that it waits for, so that no transfer waits for one who allocates (channel.h).
//
// Threads: one at a time, the engine's; pool(): any. Errors: the device's.
#include <cstdint>
#include <memory>

#include "gpu/cuda/device.h"
#include "gpu/cuda/device_pool.h"
#include "gpu/est/reduce_tree.h"

namespace es::gpu::cuda {

class DeviceReduction final : public Adder {
 public:
  // What fits into the pool: own parts, others' for owned buckets, sums, and sums that were
  // received; and as much again, since a peer may be a step ahead and blocks leave gaps.
  static constexpr std::int64_t kPoolGradients = 6;

  // `floats`: of a gradient. The device outlives it.
  DeviceReduction(Device& device, std::int64_t floats) : device_(device), floats_(floats) {}

  // Takes memory for jobs of max_p ranks, the first time. Without room the pool stays empty and
  // ready() false. Error: the device is lost.
  Status provide(std::uint32_t max_p);
  bool ready() const { return workspace_ != nullptr; }
  const std::shared_ptr<DevicePool>& pool() const { return pool_; }
  float* workspace() const { return workspace_; }  // reduce_blocks(max_p) blocks

  // --- Queued. REQUIRES: ready().
  std::int64_t block_floats() const override { return kBlockFloats; }
  const float* read(const float* part, std::int64_t begin, std::int64_t n, float* scratch) override;
  void add(std::int64_t n, const float* a, const float* b, float* y) override;
  void copy(std::int64_t n, const float* from, float* to) override;
  void copy_out(float* host, const float* device, std::int64_t n);

  // --- The host waits for all that was queued.
  Status synchronise();

 private:
  static constexpr std::int64_t kBlockFloats = std::int64_t{1} << 20;  // most buckets have less

  Device& device_;
  const std::int64_t floats_;
  bool asked_ = false;
  Stream stream_;
  float* workspace_ = nullptr;
  std::shared_ptr<DevicePool> pool_ = std::make_shared<DevicePool>();
};

}  // namespace es::gpu::cuda
