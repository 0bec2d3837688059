#pragma once
// Updater computes the parameters and moments of the next version on the device that has them. The
// arithmetic and its order are those of update.h, and so are the bits.
//
// Parameters and moments stay on the device until fetch(). Each update transfers only the input of
// the parameters' digest.
//
// Threads: one at a time. Errors: the device is lost.
#include <cstddef>
#include <span>
#include <string>

#include "gpu/optim/optimizer.h"
#include "gpu/optim/replica.h"
#include "proto/base/result.h"

namespace es::gpu {

struct UpdateFound {
  bool finite_sums = true;
  bool finite_results = true;  // refers to parameters and moments
};

class Updater {
 public:
  virtual ~Updater() = default;

  // Allocates the memory for this number of moments, once. Returns false if there is not enough of
  // it; the host then computes the updates.
  virtual bool room_for(std::size_t moments) = 0;

  // Says that the replica has other parameters or moments than those of the last update.
  virtual void replica_changed() = 0;

  // --- An update is begin(), then sums_of_squares() if the job clips, then apply().
  // Copies the sums, and whatever the device lacks of the replica, to the device. sums[b] points to
  // the floats of bucket b in host memory or in the device's pool, where they do not change until
  // apply() has returned; or it is the address of a bucket of the whole sum that a local step left
  // on the device (GradientPath::whole).
  virtual Status begin(std::span<const float* const> sums, const Replica& replica) = 0;
  // Like sums_of_squares() in update.h.
  virtual Status sums_of_squares(std::span<float> by_param) = 0;
  // Returns the name of the first parameter whose sum is not finite.
  virtual Result<std::string> bad_sum() = 0;
  // Updates on the device. If a sum is not finite, the resulting parameters are meaningless.
  virtual Result<UpdateFound> apply(const Optimizer& optimizer, const UpdateStep& step) = 0;

  // Prepares an update on the host: copies to host memory the sums that only the device has.
  virtual Status fetch_sums(std::span<const float* const> sums) = 0;

  // --- REQUIRES: apply() was called, and replica_changed() was not called after it.
  // Returns the digest of the parameters (replica.h); `frozen` is that of the frozen ones.
  virtual Digest params_digest(const Digest& frozen) const = 0;
  // Copies parameters and moments into the replica.
  virtual Status fetch(Replica& replica) = 0;
};

}  // namespace es::gpu
