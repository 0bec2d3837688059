// Updates of an engine's replica, on the host or on the device that has the parameters, and access
// to the parts of the replica that are in host memory.
#include <utility>

#include "gpu/base/float_flags.h"
#include "gpu/cuda/device_reduction.h"
#include "gpu/engine/engine.h"
#include "proto/base/check.h"

namespace es::gpu {

const Replica& Engine::replica() const {
  ES_CHECK_MSG(fetched_, "parameters and moments are on the device");
  return replica_;
}
Status Engine::fetch_replica() {
  if (fetched_) return {};
  ES_RETURN_IF_ERROR(runner_->updater()->fetch(replica_));
  fetched_ = true;
  return {};
}
Digest Engine::params_digest() const {
  return fetched_ ? gpu::params_digest(table_, replica_, frozen_digest_)
                  : runner_->updater()->params_digest(frozen_digest_);
}
Digest Engine::state_digest() const {
  ES_CHECK(holds_all());
  return gpu::state_digest(table_, replica());
}

Error Engine::lose_replica(const std::string& why) {
  const Error error = failure("step " + std::to_string(replica_.version) + ": " + why);
  usable_ = error;
  return error;
}

Status Engine::apply_update(std::span<const float* const> reduced, std::vector<EstContext> next,
                            std::uint32_t reductions) {
  ES_CHECK(holds_all());
  // The contexts are checked before anything changes, because there is no way back after the update
  // has begun.
  ES_RETURN_IF_ERROR(check_update(next));
  ES_RETURN_IF_ERROR(receive_sums(reduced));
  if (clips()) {
    if (Updater* const device = updater())
      ES_RETURN_IF_ERROR(device->sums_of_squares(squares_));
    else
      gpu::sums_of_squares({table_, buckets_, reduced}, {0, squares_.size()}, kernels_, parallel_,
                           squares_);
  }
  ES_RETURN_IF_ERROR(update(reduced, reductions));
  return commit_update(std::move(next));
}

// Prepares an update, on the device or on the host.
Status Engine::receive_sums(std::span<const float* const> sums) {
  ES_CHECK(sums.size() == buckets_.size());
  use_parameters();
  if (Updater* const device = updater()) return device->begin(sums, replica_);
  // A device without room for the moments may still hold the sum over all ranks.
  Updater* const device = holds_all() ? runner_->updater() : nullptr;
  return device != nullptr ? device->fetch_sums(sums) : Status();
}

// REQUIRES: receive_sums() was called, and `squares_` are set if the job clips.
Status Engine::update(std::span<const float* const> sums, std::uint32_t reductions) {
  const UpdateStep step = optimizer_.step(replica_.version, reductions);
  // No parameter has changed yet, so this error leaves the replica usable.
  if (clips() && !optimizer_.clip(table_.trained(), squares_))
    return failure("step " + std::to_string(replica_.version) +
                   ": the norm of the gradient is not finite");
  const ReducedGradient gradient{table_, buckets_, sums};
  ES_RETURN_IF_ERROR(updater() != nullptr ? update_on_device(step)
                                          : update_on_host(gradient, step));
  for (std::size_t b = 0; b < buckets_.size(); ++b)
    if (held_[b]) next_[b] = true;
  return {};
}

Updater* Engine::updater() {
  // Updates of whole parameters run on the host, and so do those of an engine that does not hold
  // all moments.
  if (whole_updates_ != nullptr || !holds_all()) return nullptr;
  Updater* const updater = runner_->updater();
  return updater != nullptr && updater->room_for(moment_count()) ? updater : nullptr;
}

Status Engine::provide_for_peers() {
  return updater() != nullptr ? runner_->reduction()->provide(spec_.max_p) : Status();
}

Status Engine::update_on_host(const ReducedGradient& gradient, const UpdateStep& step) {
  ES_CHECK(fetched_);
  // The sticky flags are cleared first, so that they tell afterwards whether this update produced a
  // value that is not finite.
  clear_non_finite_flags();
  // The device must copy the parameters again before its next step.
  runner_->params_changed();
  if (!update_params(gradient, optimizer_, step, kernels_, parallel_, replica_))
    return lose_replica_by_sum(first_non_finite(gradient, kernels_));
  // Its operators clear the flags, so its results are searched in any case.
  if (whole_updates_ != nullptr &&
      whole_updates_->run(optimizer_, step, kernels_, gradient, replica_))
    return keep_if_finite();
  // A raised flag is no proof, because an intermediate value may have been infinite. So the results
  // themselves are searched.
  if (non_finite_flags() == 0) return {};
  return keep_if_finite();
}

Status Engine::update_on_device(const UpdateStep& step) {
  Updater& updater = *runner_->updater();
  // From here on the parameters in host memory are old, even if the call below fails.
  fetched_ = false;
  const auto found = updater.apply(optimizer_, step);
  if (!found) return found.error();
  if (!found->finite_sums) {
    const Result<std::string> param = updater.bad_sum();
    return param ? lose_replica_by_sum(*param) : param.error();
  }
  // The name of the bad parameter is found on the host, which is slow but happens only once.
  if (found->finite_results) return {};
  ES_RETURN_IF_ERROR(fetch_replica());
  return keep_if_finite();
}

Error Engine::lose_replica_by_sum(const std::string& param) {
  return lose_replica("the gradient of " + param + " is not finite in the sum over all ESTs");
}

Status Engine::keep_if_finite() {
  const Status finite = check_finite(replica_);
  return finite.ok() ? finite : lose_replica("after the update of " + finite.error().message);
}

}  // namespace es::gpu
