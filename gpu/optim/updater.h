#pragma once
// Updater: makes the parameters and moments of the next version where a device has them. The
// arithmetic and its order are update.h's, so are the bits.
//
// Parameters are copied to the host with every update, since the version's digest is made of them;
// moments stay on the device until somebody asks for them.
//
// Threads: one at a time. Errors: the device is lost.
#include <cstddef>
#include <span>

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
  // floats in host memory, which stay as they are until apply() has returned.
  virtual Status begin(std::span<const float* const> sums, const Replica& replica) = 0;
  // As sum_of_squares() in update.h.
  virtual Result<float> sum_of_squares(std::span<float> by_param) = 0;
  // Updates on the device, and the replica's parameters. With sums that are not finite the results
  // mean nothing.
  virtual Result<UpdateFound> apply(const Optimizer& optimizer, const UpdateStep& step,
                                    Replica& replica) = 0;

  // The moments after the last apply(), to the replica.
  virtual Status fetch_moments(Replica& replica) = 0;
};

}  // namespace es::gpu
