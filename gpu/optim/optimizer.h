#pragma once
// Optimizer: the arithmetic of one update, from the settings of the job and the number of the step.
//
// KernelTable::sgd and KernelTable::adam define what the kernels compute. Everything that depends
// on the step only is computed here in fp64 without libm and is rounded once to fp32. So it is the
// same on every machine:
//   rate        the formula of ScheduleSpec
//   grad_scale  recip(max_p), which gives the mean over ESTs; with clipping times the coefficient
//   Adam        beta^t, where t is the number of the update from 1, as a running product from 1;
//               lr / (1 - beta1^t); 1 / sqrt(1 - beta2^t); AdamW's decay 1 - lr * weight_decay
// Clipping (clip_norm > 0): sum = the chain of additions, over the parameters in table order, of
// sum_of_squares(summed gradient); norm = sqrt(sum) * grad_scale in fp32;
// coefficient = min(1, clip_norm / (norm + 1e-6)).
//
// Threads: one thread at a time, except for apply().
#include <cstdint>

#include "gpu/canonical/kernels.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"

namespace es::gpu {

// The numbers of one update.
struct UpdateStep {
  float rate = 0.0F;
  float grad_scale = 1.0F;
  AdamStep adam;  // adam and adamw only
};

// The constants of sgd; the same for all steps.
struct SgdNumbers {
  float momentum = 0.0F, weight_decay = 0.0F;
  bool nesterov = false;
};

class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, const ScheduleSpec& schedule, std::uint64_t total_steps,
            std::uint32_t max_p);

  // Returns the number of state arrays: 1 for sgd with momentum, 0 for sgd without it, 2 for adam
  // and adamw (m, v).
  std::size_t moment_count() const;
  // Returns the learning rate of global step `step` (0-based).
  float rate(std::uint64_t step) const;
  bool clips() const { return spec_.clip_norm > 0.0; }
  bool is_sgd() const { return kind_ == Kind::kSgd; }
  // REQUIRES: is_sgd().
  SgdNumbers sgd_numbers() const;

  // Returns the numbers of the update that turns `version` into version + 1, before clipping. The
  // result does not depend on earlier calls. Consecutive versions are cheap.
  UpdateStep step(Version version);
  // Returns `grad_scale` times the clipping coefficient. `sum_of_squares` is that of the summed
  // gradient and is finite.
  float clipped_scale(float grad_scale, float sum_of_squares) const;

  // Updates n parameters and their moments (moment_count() arrays) in place, and changes nothing
  // else. Several threads may call it for different parameters.
  void apply(const UpdateStep& step, const KernelTable& kernels, std::int64_t n,
             const float* grad_sum, float* params, float* const* moments) const;

 private:
  enum class Kind { kSgd, kAdam, kAdamW };
  void advance_powers(std::uint64_t count);

  // These members are constant after construction.
  OptimizerSpec spec_;
  ScheduleSpec schedule_;
  std::uint64_t total_steps_;
  std::uint32_t max_p_;
  Kind kind_;

  // Running products of `power_` factors each. They are a cache and do not change any result.
  std::uint64_t power_ = 0;
  double beta1_power_ = 1.0, beta2_power_ = 1.0;
};

}  // namespace es::gpu
