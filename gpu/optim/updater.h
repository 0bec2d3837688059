#pragma once
// Updater: makes the parameters and moments of the next version where a device has them. The
// arithmetic and its order are update.h's, so are the bits.
//
// Both stay on the device until somebody asks for them. What leaves with every update is what the
// digest of the parameters is made of.
//
// Threads: one at a time. Errors: the device is lost.
#include <cstddef>
#include <span>
#include <string>

#include "gpu/optim/optimizer.h"
#include "gpu/replica.h"
#include "proto/base/result.h"

namespace es::gpu {

struct UpdateFound {
  bool finite_sums = true;
  bool finite_results = true;  // parameters and moments
};

class Updater {
 public:
  virtual ~Updater() = default;

  // Takes memory for so many moments, once. False: there is none; updates are the host's.
  virtual bool room_for(std::size_t moments) = 0;

  // The replica has other parameters or moments than those of the last update.
  virtual void replica_changed() = 0;

  // --- An update is begin(), sum_of_squares() where the job clips, apply().
  // Copies the sums to the device, and what it does not have of the replica. sums[b]: bucket b's
  // floats in host memory or the device's pool, which stay as they are until apply() has returned;
  // or the address of a bucket of the whole sum that a local step left on the device
  // (GradientPath::whole).
  virtual Status begin(std::span<const float* const> sums, const Replica& replica) = 0;
  // As sum_of_squares() in update.h.
  virtual Result<float> sum_of_squares(std::span<float> by_param) = 0;
  // Name of the first parameter whose sum is not finite.
  virtual Result<std::string> bad_sum() = 0;
  // Updates on the device. With sums that are not finite the results mean nothing.
  virtual Result<UpdateFound> apply(const Optimizer& optimizer, const UpdateStep& step) = 0;

  // For an update on the host: fills the host memory of what only the device has of the sums.
  virtual Status fetch_sums(std::span<const float* const> sums) = 0;

  // --- REQUIRES: apply() came, and replica_changed() not after it.
  // Digest of the parameters (replica.h).
  virtual Digest params_digest() const = 0;
  // Parameters and moments, to the replica.
  virtual Status fetch(Replica& replica) = 0;
};

}  // namespace es::gpu
