#include "gpu/cuda/device_updater.h"

#include <algorithm>

#include "gpu/optim/update.h"
#include "proto/base/check.h"
#include "proto/base/digest_secret.h"

namespace es::gpu::cuda {
Result<float*> DeviceUpdater::device_floats(std::size_t count, const char* what) {
  const auto memory = device_.allocate(std::max<std::size_t>(count, 1) * sizeof(float), what);
  if (!memory) return memory.error();
  return static_cast<float*>(*memory);
}

Status DeviceUpdater::allocate(std::size_t moments) {
  std::size_t workspace = 0;
  for (const ParamInfo& p : table_.trained())
    workspace = std::max(workspace, device_.kernels().sum_of_squares_workspace_floats(p.count));
  ES_SET(workspace_, device_floats(workspace, "sums of squares"));
  ES_SET(squares_, device_floats(table_.trained().size(), "sums of squares"));
  void* memory = nullptr;
  ES_SET(memory, device_.allocate_host(table_.trained().size() * sizeof(float), "sums of squares"));
  host_squares_ = static_cast<float*>(memory);
  ES_SET(memory, device_.allocate(kFlags * sizeof(std::int32_t), "flags"));
  flags_ = static_cast<std::int32_t*>(memory);
  ES_SET(memory, device_.allocate_host(kFlags * sizeof(std::int32_t), "flags"));
  host_flags_ = static_cast<std::int32_t*>(memory);
  ES_RETURN_IF_ERROR(allocate_digests());
  for (std::size_t m = 0; m < moments; ++m) {
    float* moment = nullptr;
    ES_SET(moment, device_floats(table_.trained_floats(), "the optimizer's moments"));
    moments_.push_back(moment);
  }
  return {};
}

Status DeviceUpdater::allocate_digests() {
  // A digest has two words. The device copies only these and not the parameters, which stay where
  // they are.
  const std::size_t words = 2 * static_cast<std::size_t>(std::max<std::int64_t>(chunks(), 1));
  void* memory = nullptr;
  ES_SET(memory, device_.allocate(words * sizeof(std::uint64_t), "digests"));
  chunk_digests_ = static_cast<std::uint64_t*>(memory);
  ES_SET(memory, device_.allocate_host(words * sizeof(std::uint64_t), "digests"));
  host_chunk_digests_ = static_cast<std::uint64_t*>(memory);
  ES_SET(memory, device_.allocate_host(bytes_of(kDigestChunkFloats), "digests"));
  host_rest_ = static_cast<float*>(memory);
  const DigestSecret secret = digest_secret();
  ES_SET(memory, device_.allocate(sizeof secret, "digests"));
  // The digests of the device must equal those of the host, so they use the same secret.
  secret_ = static_cast<std::uint64_t*>(memory);
  device_.copy_in(compute_, secret_, secret.data(), sizeof secret);
  return device_.synchronise(compute_);
}

bool DeviceUpdater::room_for(std::size_t moments) {
  if (room_ == Room::kUnknown) room_ = allocate(moments).ok() ? Room::kThere : Room::kMissing;
  return room_ == Room::kThere;
}

void DeviceUpdater::look_for(Flag flag, const float* values) {
  // No update changes frozen parameters, which have no gradients and no moments.
  const FiniteCheck check{values, table_.trained_floats(), flags_ + flag};
  device_.kernels().find_non_finite(compute_, &check, 1);
}

Status DeviceUpdater::begin(std::span<const float* const> sums, const Replica& replica) {
  ES_RETURN_IF_ERROR(device_.begin());
  const std::size_t bytes = bytes_of(table_.trained_floats());
  // Parameters and moments are copied only after the replica was replaced. Otherwise the device has
  // the newest ones itself.
  if (params_.stale)
    device_.copy_in(compute_, params_.memory, replica.params.data(),
                    bytes_of(table_.total_floats()));
  params_.stale = false;
  for (std::size_t m = 0; m < moments_.size() && moments_stale_; ++m)
    device_.copy_in(compute_, moments_[m], replica.moments[m].data(), bytes);
  moments_stale_ = false;
  // From here on gradient() contains the sums over all ESTs and not the gradient of one EST.
  gradients_.gather(compute_, sums);
  // The flags are integers. Four zero bytes are the integer 0 as well as the float +0.
  device_.kernels().fill_zero(compute_, kFlags, reinterpret_cast<float*>(flags_));
  return device_.check();
}

Status DeviceUpdater::sums_of_squares(std::span<float> by_param) {
  const std::span<const ParamInfo> params = table_.trained();
  ES_CHECK(by_param.size() == params.size());
  for (std::size_t i = 0; i < params.size(); ++i)
    device_.kernels().sum_of_squares(compute_, params[i].count,
                                     gradients_.gradient() + params[i].offset, squares_ + i,
                                     workspace_);
  device_.copy_out(compute_, host_squares_, squares_, params.size() * sizeof(float));
  ES_RETURN_IF_ERROR(device_.synchronise(compute_));
  std::copy_n(host_squares_, params.size(), by_param.begin());
  // The host adds the sums of the parameters (Optimizer::clip). So a norm has the same bits as that
  // of a CPU.
  return {};
}

Result<std::string> DeviceUpdater::bad_sum() {
  // This is the slow search for the name, one parameter after the other. It runs only after a step
  // has failed.
  for (const ParamInfo& p : table_.trained()) {
    const FiniteCheck check{gradients_.gradient() + p.offset, p.count, flags_ + kSums};
    device_.kernels().fill_zero(compute_, kFlags, reinterpret_cast<float*>(flags_));
    device_.kernels().find_non_finite(compute_, &check, 1);
    device_.copy_out(compute_, host_flags_, flags_, kFlags * sizeof(std::int32_t));
    ES_RETURN_IF_ERROR(device_.synchronise(compute_));
    if (host_flags_[kSums] != 0) return p.name;
  }
  return std::string();
}

Status DeviceUpdater::fetch_sums(std::span<const float* const> sums) {
  ES_RETURN_IF_ERROR(device_.begin());
  return gradients_.fetch(sums);
}

void DeviceUpdater::update(const Optimizer& optimizer, const UpdateStep& step,
                           const GroupRun& run) {
  const DeviceKernels& k = device_.kernels();
  const UpdateFlags flags{flags_ + kSums, flags_ + kResults};
  const GroupStep& numbers = step.groups[run.group];
  const std::int64_t n = run.end - run.begin;
  const float scale = step.grad_scales[run.clip];
  const float* const gradient = gradients_.gradient() + run.begin;
  float* const params = params_.memory + run.begin;
  if (optimizer.is_captured()) {
    if (numbers.captured == nullptr) return;  // padding
    std::vector<float*> moments;
    for (float* const moment : moments_) moments.push_back(moment + run.begin);
    const CapturedCall call(*numbers.captured, numbers.code, scale, n, gradient, params,
                            moments.data());
    return k.program(compute_, call.code, call.space, {}, call.in.data(), call.out.data(), n);
  }
  if (!optimizer.is_sgd())
    return k.adam(compute_, n, gradient, scale, numbers.adam, params, moments_[0] + run.begin,
                  moments_[1] + run.begin, flags);
  const SgdNumbers sgd = optimizer.sgd_numbers(run.group);
  k.sgd(compute_, n, gradient, scale, numbers.rate, step.momentum, sgd.weight_decay, sgd.nesterov,
        params, optimizer.has_velocity() ? moments_[0] + run.begin : nullptr, flags);
}

void DeviceUpdater::average(const UpdateStep& step) {
  device_.kernels().sgd(compute_, table_.trained_floats(), params_.memory, -1.0F,
                        step.average_weight, 0.0F, 1.0F, false, moments_.back(), nullptr,
                        {.results = flags_ + kResults});
}

void DeviceUpdater::queue_digests() {
  if (chunks() != 0)
    device_.kernels().chunk_digests(compute_, chunks(), params_.memory, secret_, chunk_digests_);
  device_.copy_out(compute_, host_chunk_digests_, chunk_digests_,
                   2 * static_cast<std::size_t>(chunks()) * sizeof(std::uint64_t));
  device_.copy_out(compute_, host_rest_, params_.memory + chunks() * kDigestChunkFloats,
                   bytes_of(rest_floats()));
}

Result<UpdateFound> DeviceUpdater::apply(const Optimizer& optimizer, const UpdateStep& step) {
  // A forward pass that was queued ahead has used the old parameters and becomes invalid.
  ++params_.edition;
  // The kernels of sgd and adam look for bad values where they have them in registers. A program of
  // a captured optimizer does not, nor does it read what it leaves as it is.
  if (optimizer.is_captured()) look_for(kSums, gradients_.gradient());
  visit_runs(optimizer.runs(), 0, table_.trained_floats(),
             [&](const GroupRun& run) { update(optimizer, step, run); });
  if (optimizer.averages()) average(step);
  if (optimizer.is_captured()) {
    look_for(kResults, params_.memory);
    for (const float* const moment : moments_) look_for(kResults, moment);
  }
  queue_digests();
  device_.copy_out(compute_, host_flags_, flags_, kFlags * sizeof(std::int32_t));
  ES_RETURN_IF_ERROR(device_.synchronise(compute_));
  return UpdateFound{.finite_sums = host_flags_[kSums] == 0,
                     .finite_results = host_flags_[kResults] == 0};
}

Digest DeviceUpdater::params_digest(const Digest& frozen) const {
  std::vector<Digest> digests;
  // The device writes the low word of a digest first; a Digest begins with the high word.
  for (std::int64_t i = 0; i < chunks(); ++i)
    digests.push_back({host_chunk_digests_[2 * i + 1], host_chunk_digests_[2 * i]});
  return array_digest(table_, digests,
                      std::as_bytes(std::span(host_rest_, static_cast<std::size_t>(rest_floats()))),
                      frozen);
}

Status DeviceUpdater::fetch(Replica& replica) {
  ES_RETURN_IF_ERROR(device_.begin());
  const std::size_t bytes = bytes_of(table_.trained_floats());
  device_.copy_out(compute_, replica.params.data(), params_.memory, bytes);
  for (std::size_t m = 0; m < moments_.size(); ++m)
    device_.copy_out(compute_, replica.moments[m].data(), moments_[m], bytes);
  return device_.synchronise(compute_);
}

}  // namespace es::gpu::cuda
