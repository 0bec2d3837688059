#pragma once
// DeviceReduction computes sums over workers on a device, and owns the device memory of gradients
// that travel between workers.
//
// Parts in the pool are added where they are. Other parts are in host memory and are copied in
// block by block. The order is that of reduce_tree.h and the kernel is the canonical `add`, so the
// bits are those of the host.
//
// Memory: provide() allocates it once: kPoolGradients gradients, or as much as can be spared. It is
// called when the first update has its moments and the sums over ESTs exist, because they need the
// memory more, and when this worker has received everything that it waits for, so that no transfer
// waits while this worker allocates (channel.h).
//
// Threads: one at a time (the engine's); pool(): any thread. Errors: those of the device.
#include <cstdint>
#include <memory>

#include "gpu/cuda/device.h"
#include "gpu/cuda/device_pool.h"
#include "gpu/est/reduce_tree.h"

namespace es::gpu::cuda {

class DeviceReduction final : public Adder {
 public:
  // Size of the pool in gradients. It holds the worker's own parts, the other workers' parts of the
  // buckets that it owns, sums, and received sums; and the same amount again, because a peer may be
  // one step ahead and blocks leave gaps.
  static constexpr std::int64_t kPoolGradients = 6;

  // `floats` is the length of a gradient. The device must outlive this object.
  DeviceReduction(Device& device, std::int64_t floats) : device_(device), floats_(floats) {}

  // Allocates memory for jobs of max_p ranks at the first call. If there is no room, the pool stays
  // empty and ready() stays false. Error: the device is lost.
  Status provide(std::uint32_t max_p);
  bool ready() const { return workspace_ != nullptr; }
  const std::shared_ptr<DevicePool>& pool() const { return pool_; }
  float* workspace() const { return workspace_; }  // reduce_blocks(max_p) blocks

  // --- Queued work. REQUIRES: ready().
  std::int64_t block_floats() const override { return kBlockFloats; }
  const float* read(const float* part, std::int64_t begin, std::int64_t n, float* scratch) override;
  void add(std::int64_t n, const float* a, const float* b, float* y) override;
  void copy(std::int64_t n, const float* from, float* to) override;
  void copy_out(float* host, const float* device, std::int64_t n);

  // --- Waits for everything that was queued.
  Status synchronise();

 private:
  static constexpr std::int64_t kBlockFloats = std::int64_t{1} << 20;  // larger than most buckets

  Device& device_;
  const std::int64_t floats_;
  bool asked_ = false;
  Stream stream_;
  float* workspace_ = nullptr;
  std::shared_ptr<DevicePool> pool_ = std::make_shared<DevicePool>();
};

}  // namespace es::gpu::cuda
