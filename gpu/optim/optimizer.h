#pragma once
// Optimizer: the arithmetic of one update, from the job's settings and the number of the step.
//
// What the kernels compute is written at KernelTable::sgd and ::adam. Everything that depends on
// the step only is computed here in fp64, without libm, and rounded once to fp32, so it is the same
// on every machine:
//   rate        ScheduleSpec's formula
//   grad_scale  recip(max_p): the mean over ESTs; with clipping times the coefficient
//   Adam        beta^t of step t - 1 as a running product from 1; lr / (1 - beta1^t);
//               1 / sqrt(1 - beta2^t); AdamW's decay 1 - lr * weight_decay
// Clipping (clip_norm > 0): norm = sqrt(chain of adds over parameters in table order of
// sum_of_squares(summed gradient)) * grad_scale in fp32; coefficient = min(1, clip_norm / (norm +
// 1e-6)).
//
// Threads: one at a time.
#include <cstdint>

#include "gpu/canonical/kernels.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"

namespace es::gpu {

// The numbers of one update.
struct UpdateStep {
  float rate = 0.0F;
  float grad_scale = 1.0F;
  AdamStep adam;  // adam, adamw
};

// Of sgd, for all steps.
struct SgdNumbers {
  float momentum = 0.0F, weight_decay = 0.0F;
  bool nesterov = false;
};

class Optimizer {
 public:
  Optimizer(const OptimizerSpec& spec, const ScheduleSpec& schedule, std::uint64_t total_steps,
            std::uint32_t max_p);

  // Arrays of state: sgd with momentum 1, without 0; adam, adamw 2 (m, v).
  std::size_t moment_count() const;
  // Learning rate of global step t (0-based).
  float rate(std::uint64_t step) const;
  bool clips() const { return spec_.clip_norm > 0.0; }
  bool is_sgd() const { return kind_ == Kind::kSgd; }
  // REQUIRES: is_sgd().
  SgdNumbers sgd_numbers() const;

  // The update that makes version + 1 of `version`, before clipping. The same whatever was asked
  // before; consecutive versions are cheap.
  UpdateStep step(Version version);
  // `grad_scale` times the clipping coefficient. sum_of_squares: of the summed gradient, finite.
  float clipped_scale(float grad_scale, float sum_of_squares) const;

  // Updates n parameters and their moments (moment_count() arrays) in place. Pure but for that; may
  // be called from several threads for different parameters.
  void apply(const UpdateStep& step, const KernelTable& kernels, std::int64_t n,
             const float* grad_sum, float* params, float* const* moments) const;

 private:
  enum class Kind { kSgd, kAdam, kAdamW };
  void advance_powers(std::uint64_t count);

  // Constant after construction.
  OptimizerSpec spec_;
  ScheduleSpec schedule_;
  std::uint64_t total_steps_;
  std::uint32_t max_p_;
  Kind kind_;

  // Running products, of `power_` factors each: a memo, no state.
  std::uint64_t power_ = 0;
  double beta1_power_ = 1.0, beta2_power_ = 1.0;
};

}  // namespace es::gpu
