#include "gpu/cuda/device_inputs.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>

namespace es::gpu::cuda {
namespace {

bool same(const DropoutKey& a, const DropoutKey& b) {
  return a.seed == b.seed && a.step == b.step && a.rank == b.rank;
}

}  // namespace

Result<std::unique_ptr<DeviceInputs>> DeviceInputs::create(Device& device,
                                                           std::vector<std::int64_t> batch_floats,
                                                           std::int64_t stat_floats) {
  std::unique_ptr<DeviceInputs> inputs(
      new DeviceInputs(device, std::move(batch_floats), stat_floats));
  ES_RETURN_IF_ERROR(inputs->allocate());
  return inputs;
}

Status DeviceInputs::allocate() {
  const auto stream = device_.make_stream();
  if (!stream) return stream.error();
  copy_in_ = *stream;
  for (Input& input : inputs_) {
    const auto copied = device_.make_event();
    if (!copied) return copied.error();
    input.copied = *copied;
    const auto words = pair(std::ranges::max(batch_floats_), "a mini-batch");
    if (!words) return words.error();
    input.words = *words;
    const auto context = pair(kKeyFloats + stat_floats_, "statistics");
    if (!context) return context.error();
    input.context = *context;
  }
  return {};
}

Result<DeviceInputs::Pair> DeviceInputs::pair(std::int64_t floats, const char* what) {
  const auto host = device_.allocate_host(bytes_of(floats), what);
  if (!host) return host.error();
  const auto device = device_.allocate(bytes_of(floats), what);
  if (!device) return device.error();
  return Pair{static_cast<float*>(*host), static_cast<float*>(*device)};
}

void DeviceInputs::copy(const Pair& pair, std::int64_t floats) {
  device_.copy_in(copy_in_, pair.device, pair.host, bytes_of(floats));
}

void DeviceInputs::pin_words(std::span<const float> memory, std::shared_ptr<const void> owner) {
  if (device_.pin(std::as_bytes(memory), std::move(owner))) pinned_ = memory;
}

bool DeviceInputs::is_pinned(const Batch& batch) const {
  // The standard library compares pointers of different arrays; the operator <= need not.
  const std::less_equal<const float*> before;
  return before(pinned_.data(), batch.words) &&
         before(batch.words + batch_floats_[batch.program], pinned_.data() + pinned_.size());
}

void DeviceInputs::copy_words(Input& to, const Batch& batch) {
  // The device reads pinned words where they are. Other words go through pinned memory of this
  // object, because a copy from pageable memory would not run beside the computation.
  if (is_pinned(batch))
    return device_.copy_in(copy_in_, to.words.device, batch.words,
                           bytes_of(batch_floats_[batch.program]));
  std::memcpy(to.words.host, batch.words, bytes_of(batch_floats_[batch.program]));
  copy(to.words, batch_floats_[batch.program]);
}

void DeviceInputs::copy_context(Input& to, const StepInput& from) {
  std::memcpy(to.context.host, &from.key, sizeof from.key);
  if (stat_floats_ != 0)
    std::memcpy(to.context.host + kKeyFloats, from.stats, bytes_of(stat_floats_));
  copy(to.context, kKeyFloats + stat_floats_);
}

void DeviceInputs::prefetch(const StepInput& input) {
  // Without a serial nothing proves later that the contents are still the same.
  if (input.batch.serial == 0) return;
  Input& next = inputs_[1 - present_];
  (void)device_.synchronise(
      next.copied);  // its host memory must be free; a device error is reported later
  copy_words(next, input.batch);
  copy_context(next, input);
  device_.record(next.copied, copy_in_);
  next.program = input.batch.program;
  next.serial = input.batch.serial;
  next.stats = input.stats;
  next.key = input.key;
}

void DeviceInputs::finish_prefetch() {
  (void)device_.synchronise(next().copied);  // a device error is reported by a later call
}

bool DeviceInputs::is_next(const StepInput& input) const {
  return input.batch.serial != 0 && next().serial == input.batch.serial &&
         next().program == input.batch.program && next().stats == input.stats &&
         same(next().key, input.key);
}

void DeviceInputs::wait_for_next(Stream compute) {
  device_.wait(compute, next().copied);
}

void DeviceInputs::stats_changed() {
  for (Input& input : inputs_) input.stats = nullptr;
}

void DeviceInputs::enter(const StepInput& input, Stream compute) {
  // The words depend on the serial alone, and the context also on the statistics and the key. So
  // words that were copied ahead stay valid if only the context has changed.
  const bool words = input.batch.serial != 0 && next().serial == input.batch.serial;
  const bool context = is_next(input);
  present_ = 1 - present_;
  Input& now = inputs_[present_];
  now.program = input.batch.program;
  // The pinned memory of this input is written below, so its last copy must be done.
  if (!words || !context) (void)device_.synchronise(now.copied);
  if (!words) copy_words(now, input.batch);
  if (!context) copy_context(now, input);
  device_.record(now.copied, copy_in_);
  device_.wait(compute, now.copied);
  // This input has been used. It will be the next one after the following enter(), and must not be
  // taken for a prefetched one then.
  now.serial = 0;
}

}  // namespace es::gpu::cuda
