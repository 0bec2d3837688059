#pragma once
// DeviceUpdater: updates of parameters on a CUDA device, with its canonical kernels.
//
// Memory: the sums are copied to where a local step writes gradients, which is free between steps;
// in the device when they are the part that the last local step left. room_for() takes the moments;
// they stay.
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/cuda/device_gradients.h"
#include "gpu/optim/updater.h"
#include "gpu/params/buckets.h"
#include "gpu/params/param_table.h"

namespace es::gpu::cuda {

class DeviceUpdater final : public Updater {
 public:
  // `params`: of the device, flat layout; `params_stale`: whether they are not the replica's; set
  // to false where they are copied. Everything is queued on `compute`. All arguments outlive it.
  DeviceUpdater(Device& device, const ParamTable& table, const std::vector<Bucket>& buckets,
                DeviceGradients& gradients, Stream compute, float* params, bool& params_stale)
      : device_(device),
        table_(table),
        buckets_(buckets),
        gradients_(gradients),
        compute_(compute),
        params_(params),
        params_stale_(params_stale) {}

  bool room_for(std::size_t moments) override;
  // False: room_for() was.
  bool has_room() const { return room_ != Room::kMissing; }
  void replica_changed() override { moments_stale_ = true; }
  Status begin(std::span<const float* const> sums, const Replica& replica) override;
  Result<float> sum_of_squares(std::span<float> by_param) override;
  Result<UpdateFound> apply(const Optimizer& optimizer, const UpdateStep& step,
                            Replica& replica) override;
  Status fetch_moments(Replica& replica) override;

 private:
  enum Flag { kSums, kResults, kFlags };
  Status allocate(std::size_t moments);
  Result<float*> device_floats(std::size_t count, const char* what);
  void update(const Optimizer& optimizer, const UpdateStep& step);
  void copy_sum(std::size_t bucket, const float* host);
  void look_for(Flag flag, const float* values);

  Device& device_;
  const ParamTable& table_;
  const std::vector<Bucket> buckets_;
  DeviceGradients& gradients_;
  const Stream compute_;
  float* const params_;
  bool& params_stale_;
  bool moments_stale_ = true;

  enum class Room { kUnknown, kThere, kMissing } room_ = Room::kUnknown;
  std::vector<float*> moments_;
  float *squares_ = nullptr, *host_squares_ = nullptr;  // by parameter
  float* workspace_ = nullptr;                          // of a sum of squares
  std::int32_t *flags_ = nullptr, *host_flags_ = nullptr;
};

}  // namespace es::gpu::cuda
