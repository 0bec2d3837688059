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
  return gpu::state_digest(table_, replica());
}

Error Engine::lose_replica(const std::string& why) {
  const Error error = failure("step " + std::to_string(replica_.version) + ": " + why);
  usable_ = error;
  return error;
}

Status Engine::apply_update(std::span<const float* const> reduced, std::vector<EstContext> next,
                            std::uint32_t reductions) {
  ES_CHECK(reduced.size() == buckets_.size());
  ES_RETURN_IF_ERROR(usable_);
  use_parameters();
  // The contexts are checked before anything changes, because there is no way back after the update
  // has begun.
  ES_RETURN_IF_ERROR(check_contexts(next, replica_.version + 1));
  const ReducedGradient gradient{table_, buckets_, reduced};
  const UpdateStep step = optimizer_.step(replica_.version, reductions);
  ES_RETURN_IF_ERROR(updater() != nullptr ? update_on_device(gradient, step)
                                          : update_on_host(gradient, step));
  // Contexts and version follow last. A replica whose update failed keeps its old version, and
  // lose_replica() has marked it as unusable if its parameters were already changed.
  replica_.contexts = std::move(next);
  ++replica_.version;
  return {};
}

Updater* Engine::updater() {
  // Updates of whole parameters run on the host.
  if (whole_updates_ != nullptr) return nullptr;
  Updater* const updater = runner_->updater();
  return updater != nullptr && updater->room_for(moment_count()) ? updater : nullptr;
}

Status Engine::provide_for_peers() {
  return updater() != nullptr ? runner_->reduction()->provide(spec_.max_p) : Status();
}

// By `squares_`. No parameter has changed yet, so this error leaves the replica usable.
Status Engine::clip() {
  if (optimizer_.clip(table_.trained(), squares_)) return {};
  return failure("step " + std::to_string(replica_.version) +
                 ": the norm of the gradient is not finite");
}

Status Engine::update_on_host(const ReducedGradient& gradient, const UpdateStep& step) {
  ES_CHECK(fetched_);
  // A device without room for the moments may still hold the sum over all ranks.
  if (Updater* const device = runner_->updater())
    ES_RETURN_IF_ERROR(device->fetch_sums(gradient.sums));
  if (optimizer_.clips()) {
    sums_of_squares(gradient, kernels_, parallel_, squares_);
    ES_RETURN_IF_ERROR(clip());
  }
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

Status Engine::update_on_device(const ReducedGradient& gradient, const UpdateStep& step) {
  Updater& updater = *runner_->updater();
  ES_RETURN_IF_ERROR(updater.begin(gradient.sums, replica_));
  if (optimizer_.clips()) {
    ES_RETURN_IF_ERROR(updater.sums_of_squares(squares_));
    ES_RETURN_IF_ERROR(clip());
  }
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
