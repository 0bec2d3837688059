#include "gpu/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu/machine_code/tile_code.h"
#include "gpu/optim/schedule.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// The epsilon of PyTorch's clip_grad_norm_, which prevents a division by zero.
constexpr float kClipEpsilon = 1e-6F;

float rounded(double value) {
  return static_cast<float>(value);
}

}  // namespace

Optimizer::Optimizer(const OptimizerSpec& spec, const ScheduleSpec& schedule,
                     std::uint64_t total_steps, std::uint32_t max_p, std::vector<GroupRun> runs,
                     CapturedOptimizer captured)
    : spec_(spec),
      schedule_(schedule),
      total_steps_(total_steps),
      max_p_(max_p),
      kind_(spec.kind == "sgd"     ? Kind::kSgd
            : spec.kind == "adam"  ? Kind::kAdam
            : spec.kind == "adamw" ? Kind::kAdamW
                                   : Kind::kCaptured),
      runs_(std::move(runs)),
      settings_{{spec.learning_rate, spec.weight_decay}},
      captured_(std::move(captured)) {
  ES_CHECK_MSG(kind_ != Kind::kCaptured || spec.kind == "captured", spec.kind);
  for (const ParameterGroup& group : spec.groups)
    settings_.push_back({spec.learning_rate * group.learning_rate_factor,
                         group.weight_decay.value_or(spec.weight_decay)});
  clip_norms_.push_back(rounded(spec.clip_norm));
  for (const ClipGroup& group : spec.clip_groups) clip_norms_.push_back(rounded(group.clip_norm));
  scales_.resize(clip_norms_.size());
  sums_.resize(clip_norms_.size());
  steps_.resize(is_captured() ? captured_.groups.size() + 1 : settings_.size());
}

std::size_t Optimizer::moment_count() const {
  const std::size_t own = is_captured() ? captured_.moments : is_sgd() ? has_velocity() : 2;
  return own + (averages() ? 1 : 0);
}

float Optimizer::rate(std::uint64_t step) const {
  return learning_rate(schedule_, spec_.learning_rate, step, total_steps_);
}

void Optimizer::advance_powers(std::uint64_t count) {
  // The powers are repeated products and not pow(), which a mathematical library may round in
  // different ways. An older version starts the chain again from 1, so a job that continues from a
  // checkpoint gets the same bits as one that never stopped.
  if (count < power_) power_ = 0;
  if (power_ == 0) beta1_power_ = beta2_power_ = 1.0;
  for (; power_ < count; ++power_) {
    beta1_power_ *= spec_.beta1;
    beta2_power_ *= spec_.beta2;
  }
}

double Optimizer::momentum(std::uint64_t step) const {
  if (!schedule_.momentum_points.empty()) return value_at(schedule_.momentum_points, step);
  return is_sgd() ? spec_.momentum : spec_.beta1;
}

UpdateStep Optimizer::captured_step(Version version, std::uint32_t reductions) {
  const std::uint32_t loss = captured_.turns.at(version).loss;
  for (std::size_t g = 0; g < captured_.groups.size(); ++g) {
    GroupStep& step = steps_[g + 1];
    step.idle = captured_.groups[g].loss != loss;
    const CapturedCode* const captured = step.idle ? nullptr : captured_.groups[g].code_of(version);
    step.captured = captured;
    if (captured == nullptr) continue;
    step.code = captured->code;
    for (std::size_t i = 0; i < captured->numbers.size(); ++i)
      step.code.constant[static_cast<std::size_t>(captured->first_number) + i] =
          captured_.numbers[captured->numbers[i]].at(version, reductions);
  }
  return {.reductions = reductions,
          .grad_scales = scales_,
          .average_weight = version == 0 ? 1.0F : rounded(1.0 - spec_.ema),
          .groups = steps_};
}

UpdateStep Optimizer::step(Version version, std::uint32_t reductions) {
  // The update multiplies the sum over all ESTs by recip(max_p), which gives the mean.
  std::ranges::fill(scales_, 1.0F / static_cast<float>(max_p_));
  if (is_captured()) return captured_step(version, reductions);
  // Adam counts its steps from 1: the first update, which turns version 0 into version 1, divides
  // by 1 - beta. With the exponent 0 it would divide by zero.
  if (kind_ != Kind::kSgd) advance_powers(version + 1);
  for (std::size_t g = 0; g < settings_.size(); ++g) {
    steps_[g].rate =
        learning_rate(schedule_, settings_[g].learning_rate, version, total_steps_, reductions);
    if (kind_ != Kind::kSgd)
      steps_[g].adam = adam_step(version, steps_[g].rate, settings_[g].weight_decay);
  }
  return {.reductions = reductions,
          .grad_scales = scales_,
          .average_weight = version == 0 ? 1.0F : rounded(1.0 - spec_.ema),
          .momentum = is_sgd() ? rounded(momentum(version)) : 0.0F,
          .groups = steps_};
}

AdamStep Optimizer::adam_step(Version version, double rate, double weight_decay) const {
  const double beta1 = momentum(version);
  const double beta1_power =
      schedule_.momentum_points.empty() ? beta1_power_ : power(beta1, version + 1);
  // Each number is computed in double precision and rounded once. The kernels of all devices
  // receive these binary32 values, so no device computes a square root or a power of its own here.
  return {.lr_over_bc1 = rounded(rate / (1.0 - beta1_power)),
          .rsqrt_bc2 = rounded(1.0 / std::sqrt(1.0 - beta2_power_)),
          .beta1 = rounded(beta1),
          .beta2 = rounded(spec_.beta2),
          .one_minus_beta1 = rounded(1.0 - beta1),
          .one_minus_beta2 = rounded(1.0 - spec_.beta2),
          .epsilon = rounded(spec_.epsilon),
          .weight_decay = kind_ == Kind::kAdam ? rounded(weight_decay) : 0.0F,
          .decay = kind_ == Kind::kAdamW ? rounded(1.0 - rate * weight_decay) : 1.0F};
}

bool Optimizer::clips() const {
  return std::ranges::any_of(clip_norms_, [](float norm) { return norm > 0.0F; });
}

bool Optimizer::clip(std::span<const ParamInfo> params, std::span<const float> squares) {
  std::ranges::fill(sums_, 0.0F);
  for (std::size_t i = 0; i < params.size(); ++i)
    visit_runs(runs_, params[i].offset, params[i].offset + 1,
               [&](const GroupRun& run) { sums_[run.clip] += squares[i]; });
  for (std::size_t c = 0; c < sums_.size(); ++c)
    if (clip_norms_[c] > 0.0F && !std::isfinite(sums_[c])) return false;
  for (std::size_t c = 0; c < sums_.size(); ++c) {
    if (clip_norms_[c] == 0.0F) continue;
    // The norm is that of the mean gradient: the factor 1/max_p is applied after the square root,
    // in binary32 as the update itself. The order of these operations belongs to the definition.
    const float norm = std::sqrt(sums_[c]) * scales_[c];
    scales_[c] = scales_[c] * std::min(1.0F, clip_norms_[c] / (norm + kClipEpsilon));
  }
  return true;
}

SgdNumbers Optimizer::sgd_numbers(std::size_t group) const {
  return {.weight_decay = rounded(settings_[group].weight_decay), .nesterov = spec_.nesterov};
}

void Optimizer::apply(const UpdateStep& step, const GroupRun& run, const KernelTable& kernels,
                      const float* grad_sum, float* params, float* const* moments) const {
  const GroupStep& numbers = step.groups[run.group];
  const float scale = step.grad_scales[run.clip];
  const std::int64_t n = run.end - run.begin;
  if (is_captured()) {
    if (numbers.captured == nullptr) return;
    const CapturedCall call(*numbers.captured, numbers.code, scale, n, grad_sum, params, moments);
    kernels.program(call.code, tile_code(call.code, kernels.cpu_class, n), call.space,
                    call.in.data(), call.out.data(), 0, n);
  } else if (is_sgd()) {
    const SgdNumbers sgd = sgd_numbers(run.group);
    kernels.sgd(n, grad_sum, scale, numbers.rate, step.momentum, sgd.weight_decay, sgd.nesterov,
                params, has_velocity() ? moments[0] : nullptr);
  } else {
    kernels.adam(n, grad_sum, scale, numbers.adam, params, moments[0], moments[1]);
  }
  average(step, kernels, n, params, moments);
}

void Optimizer::average(const UpdateStep& step, const KernelTable& kernels, std::int64_t n,
                        const float* params, float* const* moments) const {
  if (!averages()) return;
  // The decay 1 and the scale -1 make the gradient average - parameter.
  kernels.sgd(n, params, -1.0F, step.average_weight, 0.0F, 1.0F, false, moments[moment_count() - 1],
              nullptr);
}

}  // namespace es::gpu
