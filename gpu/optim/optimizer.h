#pragma once
// Optimizer: the arithmetic of one update, from the settings of the job and the number of the step.
//
// KernelTable::sgd and KernelTable::adam define what the kernels compute. Everything that depends
// on the step only is computed here in fp64 without libm and is rounded once to fp32. So it is the
// same on every machine:
//   rate        the formula of ScheduleSpec
//   grad_scales recip(max_p), which gives the mean over ESTs; with clipping times the coefficient
//   Adam        beta^t, where t is the number of the update from 1, as a running product from 1;
//               lr / (1 - beta1^t); 1 / sqrt(1 - beta2^t); AdamW's decay 1 - lr * weight_decay
//   momentum    that of OptimizerSpec, or value_at(momentum_points, step); the beta1 of adam and
//               adamw likewise. The power t of a beta1 that changes is made by repeated squaring
//               (power() of schedule.h).
// Groups of parameters: their numbers are those of a job whose learning_rate is learning_rate *
// learning_rate_factor, a product in fp64, and whose weight_decay is that of the group.
// Clipping (clip_norm > 0), of each clip group and of the parameters without one by themselves:
// sum = the chain of additions from +0, over these parameters in table order, of
// sum_of_squares(summed gradient); norm = sqrt(sum) * recip(max_p) in fp32;
// coefficient = min(1, clip_norm / (norm + 1e-6)).
//
// Average (ema > 0): the average is +0 at version 0. The update that makes version t moves it to
//   average = fma(w, parameter - average, average)
// where w = 1 for version 1, so that it begins with these parameters, and 1 - ema otherwise. This
// is sgd without momentum on the average, with the gradient average - parameter and the rate w.
//
// A captured optimizer (captured.h) brings its programs and all numbers that depend on the step.
//
// Threads: one thread at a time, except for apply().
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/canonical/kernels.h"
#include "gpu/optim/captured.h"
#include "gpu/optim/parameter_groups.h"
#include "proto/base/ids.h"
#include "proto/base/job_spec.h"

namespace es::gpu {

// The numbers of one update for the parameters of one group.
struct GroupStep {
  float rate = 0.0F;
  AdamStep adam;      // adam and adamw only
  bool idle = false;  // of a captured optimizer: the step of another loss, which leaves it as it is
  // Of a captured optimizer: the element-wise program of this step, and its code with the numbers
  // of the step. nullptr: none updates the group in this step.
  const CapturedCode* captured = nullptr;
  ElementCode code;
};

// The numbers of one update.
struct UpdateStep {
  // How often evaluations had lowered the learning rate before.
  std::uint32_t reductions = 0;
  // The factor of the summed gradient, by GroupRun::clip; as `groups` below.
  std::span<const float> grad_scales;
  float average_weight = 1.0F;
  float momentum = 0.0F;  // sgd only
  // By GroupRun::group; the memory of the optimizer, valid until its next step().
  std::span<const GroupStep> groups;
};

// The constants of sgd for the parameters of one group; the same for all steps.
struct SgdNumbers {
  float weight_decay = 0.0F;
  bool nesterov = false;
};

class Optimizer {
 public:
  // `runs` are those of spec.groups, or of the captured optimizer. The default is one run of
  // everything: no groups.
  Optimizer(const OptimizerSpec& spec, const ScheduleSpec& schedule, std::uint64_t total_steps,
            std::uint32_t max_p, std::vector<GroupRun> runs = {GroupRun{}},
            CapturedOptimizer captured = {});

  // Returns the number of state arrays: 1 for sgd with momentum, 0 for sgd without it, 2 for adam
  // and adamw (m, v), and those of a captured optimizer. One more, the last one, is the average, if
  // the job has one.
  std::size_t moment_count() const;
  bool averages() const { return spec_.ema > 0.0; }
  bool has_velocity() const { return is_sgd() && spec_.momentum != 0.0; }
  // Returns the learning rate of global step `step` (0-based) for parameters without a group.
  float rate(std::uint64_t step) const;
  bool clips() const;
  bool is_sgd() const { return kind_ == Kind::kSgd; }
  bool is_captured() const { return kind_ == Kind::kCaptured; }
  std::span<const GroupRun> runs() const { return runs_; }
  // REQUIRES: is_sgd().
  SgdNumbers sgd_numbers(std::size_t group) const;

  // Returns the numbers of the update that turns `version` into version + 1, before clipping. The
  // result does not depend on earlier calls. Consecutive versions are cheap. `reductions` as for
  // learning_rate().
  UpdateStep step(Version version, std::uint32_t reductions = 0);
  // Multiplies the scales of the last step() by the clipping coefficients. `squares` are those of
  // sums_of_squares() (update.h) for the trained parameters. Returns false, with nothing changed,
  // if the norm of a group that is clipped is not finite.
  bool clip(std::span<const ParamInfo> params, std::span<const float> squares);

  // Updates the parameters of a run and their moments (moment_count() arrays) in place, and changes
  // nothing else. The pointers are to the first element of the run. Several threads may call it for
  // different runs. It does nothing to a group of a captured optimizer that has no code for this
  // step.
  void apply(const UpdateStep& step, const GroupRun& run, const KernelTable& kernels,
             const float* grad_sum, float* params, float* const* moments) const;
  // Moves the average of n parameters, as apply() does at its end.
  void average(const UpdateStep& step, const KernelTable& kernels, std::int64_t n,
               const float* params, float* const* moments) const;

 private:
  enum class Kind { kSgd, kAdam, kAdamW, kCaptured };
  // The settings that a group may have of its own.
  struct GroupSettings {
    double learning_rate = 0.0, weight_decay = 0.0;
  };
  UpdateStep captured_step(Version version, std::uint32_t reductions);
  void advance_powers(std::uint64_t count);
  // The momentum of sgd, or the beta1 of adam and adamw, in a step.
  double momentum(std::uint64_t step) const;
  AdamStep adam_step(Version version, double rate, double weight_decay) const;

  // These members are constant after construction.
  OptimizerSpec spec_;
  ScheduleSpec schedule_;
  std::uint64_t total_steps_;
  std::uint32_t max_p_;
  Kind kind_;
  std::vector<GroupRun> runs_;
  std::vector<GroupSettings> settings_;  // by GroupRun::group; of one that is not captured
  std::vector<float> clip_norms_;        // by GroupRun::clip; 0 for no clipping
  CapturedOptimizer captured_;

  // Of the last step(), by GroupRun::group and by GroupRun::clip.
  std::vector<GroupStep> steps_;
  std::vector<float> scales_;
  std::vector<float> sums_;  // of clip(), by GroupRun::clip
  // Running products of `power_` factors each. They are a cache and do not change any result.
  std::uint64_t power_ = 0;
  double beta1_power_ = 1.0, beta2_power_ = 1.0;
};

}  // namespace es::gpu
