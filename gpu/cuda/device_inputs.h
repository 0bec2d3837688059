#pragma once
// DeviceInputs: the input of a local step besides the parameters: a mini-batch, statistics, and the
// key of its random numbers. There are two copies of each: while the device works on the input of
// one step, the input of the next step is copied on a stream of its own.
//
// Threads: one at a time. Errors: those of the device. Memory: two inputs on the device and two in
// pinned host memory. Words that are not in pinned memory already are copied through the latter.
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/graph/step_runner.h"

namespace es::gpu::cuda {

class DeviceInputs {
 public:
  // batch_floats[p] is the length of a mini-batch of program p (Batch::program). Error (failure):
  // memory is missing.
  static Result<std::unique_ptr<DeviceInputs>> create(Device& device,
                                                      std::vector<std::int64_t> batch_floats,
                                                      std::int64_t stat_floats);

  // Words in this memory need not be copied to the pinned memory of this object if the device can
  // pin it. REQUIRES: called at most once.
  void pin_words(std::span<const float> memory, std::shared_ptr<const void> owner);

  // Copies the input that enter() will probably get next. A batch without a serial is not copied.
  // The caller's memory is read before the function returns; pinned words are read before
  // finish_prefetch() returns. REQUIRES, as for enter(): the work that read the input before the
  // present one is done.
  void prefetch(const StepInput& input);
  void finish_prefetch();
  // Says that the statistics in the caller's memory have changed.
  void stats_changed();

  // Makes `input` the present one and copies what was not prefetched. What is queued on `compute`
  // from now on runs after these copies and after everything else that is queued on stream().
  void enter(const StepInput& input, Stream compute);
  Stream stream() const { return copy_in_; }

  // --- The next input: whether something was prefetched, and whether it equals `input`.
  bool has_next() const { return next().serial != 0 && next().stats != nullptr; }
  bool is_next(const StepInput& input) const;
  // What is queued on `compute` from now on runs after the copies of the next input.
  void wait_for_next(Stream compute);

  // --- Input 0 or 1, in device memory.
  std::size_t present() const { return present_; }
  std::uint32_t program(std::size_t index) const { return inputs_[index].program; }
  const float* words(std::size_t index) const { return inputs_[index].words.device; }
  const float* stats(std::size_t index) const { return inputs_[index].context.device + kKeyFloats; }
  const DropoutKey* key(std::size_t index) const {
    return reinterpret_cast<const DropoutKey*>(inputs_[index].context.device);
  }

 private:
  static constexpr std::int64_t kKeyFloats = 16;  // the key, padded to keep the statistics aligned

  struct Pair {
    float *host = nullptr, *device = nullptr;
  };
  struct Input {
    Pair words, context;  // context: the key, then the statistics
    Event copied;
    std::uint32_t program = 0;
    // What has been copied ahead.
    std::uint64_t serial = 0;  // 0: nothing has been copied
    const float* stats = nullptr;
    DropoutKey key;
  };

  DeviceInputs(Device& device, std::vector<std::int64_t> batch_floats, std::int64_t stat_floats)
      : device_(device), batch_floats_(std::move(batch_floats)), stat_floats_(stat_floats) {}
  const Input& next() const { return inputs_[1 - present_]; }
  Status allocate();
  Result<Pair> pair(std::int64_t floats, const char* what);
  bool is_pinned(const Batch& batch) const;
  void copy_words(Input& to, const Batch& batch);
  void copy_context(Input& to, const StepInput& from);
  void copy(const Pair& pair, std::int64_t floats);

  Device& device_;
  const std::vector<std::int64_t> batch_floats_;  // [program]
  const std::int64_t stat_floats_;
  Stream copy_in_;
  std::span<const float> pinned_;
  Input inputs_[2];
  std::size_t present_ = 0;
};

}  // namespace es::gpu::cuda
