#pragma once
// DeviceUpdater updates parameters on a CUDA device with its canonical kernels.
//
// Memory: the sums are copied to the place where a local step writes gradients, which is free
// between steps. If the sums are the whole sum that the last local step left on the device, this
// copy stays within device memory. room_for() allocates the moments and the memory of digests; both
// are kept.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/base/digest_chunk.h"
#include "gpu/cuda/device.h"
#include "gpu/cuda/device_gradients.h"
#include "gpu/optim/updater.h"
#include "gpu/params/param_table.h"

namespace es::gpu::cuda {

// The parameters of a device.
struct DeviceParams {
  float* memory = nullptr;    // flat layout
  bool stale = true;          // the replica has other parameters, which must be copied
  std::uint64_t edition = 0;  // changes whenever the parameters change
};

class DeviceUpdater final : public Updater {
 public:
  // Queues everything on `compute`. All arguments must outlive this object.
  DeviceUpdater(Device& device, const ParamTable& table, DeviceGradients& gradients, Stream compute,
                DeviceParams& params)
      : device_(device), table_(table), gradients_(gradients), compute_(compute), params_(params) {}

  bool room_for(std::size_t moments) override;
  // Returns false if room_for() has returned false.
  bool has_room() const { return room_ != Room::kMissing; }
  void replica_changed() override {
    moments_stale_ = true;
    gradients_.forget_whole();
  }
  Status begin(std::span<const float* const> sums, const Replica& replica) override;
  Status sums_of_squares(std::span<float> by_param) override;
  Result<std::string> bad_sum() override;
  Status fetch_sums(std::span<const float* const> sums) override;
  Result<UpdateFound> apply(const Optimizer& optimizer, const UpdateStep& step) override;
  Digest params_digest(const Digest& frozen) const override;
  Status fetch(Replica& replica) override;

 private:
  enum Flag { kSums, kResults, kFlags };
  Status allocate(std::size_t moments);
  Status allocate_digests();
  Result<float*> device_floats(std::size_t count, const char* what);
  void update(const Optimizer& optimizer, const UpdateStep& step, const GroupRun& run);
  void average(const UpdateStep& step);  // as Optimizer::apply()
  void look_for(Flag flag, const float* values);
  std::int64_t chunks() const { return table_.trained_floats() / kDigestChunkFloats; }
  std::int64_t rest_floats() const { return table_.trained_floats() % kDigestChunkFloats; }
  void queue_digests();

  Device& device_;
  const ParamTable& table_;
  DeviceGradients& gradients_;
  const Stream compute_;
  DeviceParams& params_;
  bool moments_stale_ = true;

  enum class Room { kUnknown, kThere, kMissing } room_ = Room::kUnknown;
  std::vector<float*> moments_;
  float *squares_ = nullptr, *host_squares_ = nullptr;  // [parameter]
  float* workspace_ = nullptr;                          // workspace of a sum of squares
  std::int32_t *flags_ = nullptr, *host_flags_ = nullptr;
  // The input of the parameters' digest: two words for each chunk, and the floats after the chunks.
  std::uint64_t *secret_ = nullptr, *chunk_digests_ = nullptr, *host_chunk_digests_ = nullptr;
  float* host_rest_ = nullptr;
};

}  // namespace es::gpu::cuda
