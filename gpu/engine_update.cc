// Updates of an engine's replica: on the host, or where a device has its parameters.
#include <cmath>
#include <utility>

#include "gpu/engine.h"
#include "gpu/float_flags.h"
#include "proto/base/check.h"

namespace es::gpu {

Error Engine::lose_replica(const std::string& why) {
  const Error error = failure("step " + std::to_string(replica_.version) + ": " + why);
  usable_ = error;
  return error;
}

Status Engine::apply_update(std::span<const float* const> reduced, std::vector<EstContext> next) {
  ES_CHECK(reduced.size() == buckets_.size());
  ES_RETURN_IF_ERROR(usable_);
  ES_RETURN_IF_ERROR(check_contexts(next, replica_.version + 1));
  const ReducedGradient gradient{table_, buckets_, reduced};
  const UpdateStep step = optimizer_.step(replica_.version);
  ES_RETURN_IF_ERROR(updater() != nullptr ? update_on_device(gradient, step)
                                          : update_on_host(gradient, step));
  replica_.contexts = std::move(next);
  ++replica_.version;
  return {};
}

Updater* Engine::updater() {
  Updater* const updater = runner_->updater();
  return updater != nullptr && updater->room_for(moment_count()) ? updater : nullptr;
}

// `squares`: of all sums.
Status Engine::clip(UpdateStep& step, Result<float> squares) const {
  if (!squares) return squares.error();
  if (!std::isfinite(*squares))
    return failure("step " + std::to_string(replica_.version) +
                   ": the norm of the gradient is not finite");
  step.grad_scale = optimizer_.clipped_scale(step.grad_scale, *squares);
  return {};
}

Status Engine::update_on_host(const ReducedGradient& gradient, UpdateStep step) {
  if (optimizer_.clips())
    ES_RETURN_IF_ERROR(clip(step, sum_of_squares(gradient, kernels_, parallel_, squares_)));
  clear_non_finite_flags();
  runner_->params_changed();
  if (!update_params(gradient, optimizer_, step, kernels_, parallel_, replica_))
    return lose_replica(gradient);
  if (non_finite_flags() == 0) return {};
  return keep_if_finite();
}

Status Engine::update_on_device(const ReducedGradient& gradient, UpdateStep step) {
  Updater& updater = *runner_->updater();
  ES_RETURN_IF_ERROR(updater.begin(gradient.sums, replica_));
  if (optimizer_.clips()) ES_RETURN_IF_ERROR(clip(step, updater.sum_of_squares(squares_)));
  fetched_ = false;
  const auto found = updater.apply(optimizer_, step, replica_);
  if (!found) return found.error();
  if (!found->finite_sums) return lose_replica(gradient);
  if (found->finite_results) return {};
  ES_RETURN_IF_ERROR(fetch_replica());
  return keep_if_finite();
}

// A sum of gradients is not finite.
Error Engine::lose_replica(const ReducedGradient& gradient) {
  return lose_replica("the gradient of " + first_non_finite(gradient, kernels_) +
                      " is not finite in the sum over all ESTs");
}

Status Engine::keep_if_finite() {
  const Status finite = check_finite(replica_);
  return finite.ok() ? finite : lose_replica("after the update of " + finite.error().message);
}

}  // namespace es::gpu
