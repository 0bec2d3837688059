#pragma once
// DeviceInputs: what a local step reads besides parameters: a mini-batch, statistics, the key of
// its random numbers. There are two of each: while the device works on those of one step, those of
// the next are copied, on a stream of their own.
//
// Threads: one at a time. Errors: the device's. Memory: twice an input on the device, twice in
// pinned host memory, through which words go that are not in such memory already.
#include <cstdint>
#include <memory>
#include <span>

#include "gpu/cuda/device.h"
#include "gpu/graph/step_runner.h"

namespace es::gpu::cuda {

class DeviceInputs {
 public:
  // Error (failure): missing memory.
  static Result<std::unique_ptr<DeviceInputs>> create(Device& device, std::int64_t batch_floats,
                                                      std::int64_t stat_floats);

  // Words in this memory need not be copied to pinned memory of this object, if the device can pin
  // it. REQUIRES: called once.
  void pin_words(std::span<const float> memory, std::shared_ptr<const void> owner);

  // Copies what enter() will probably be given next; a batch without serial is not. The caller's
  // memory is read before it returns, pinned words before finish_prefetch() does. REQUIRES, as
  // enter(): what read the input before the present one is done.
  void prefetch(const StepInput& input);
  void finish_prefetch();
  // Statistics in the caller's memory are not what they were.
  void stats_changed();

  // Makes `input` the present one: what is queued on `compute` from now on comes after it, and
  // after everything else that is queued on stream(). Copies what was not prefetched.
  void enter(const StepInput& input, Stream compute);
  Stream stream() const { return copy_in_; }

  // --- The next one: whether something was prefetched, and whether it is this.
  bool has_next() const { return next().serial != 0 && next().stats != nullptr; }
  bool is_next(const StepInput& input) const;
  // What is queued on `compute` from now on comes after its copies.
  void wait_for_next(Stream compute);

  // --- Input 0 or 1, in device memory.
  std::size_t present() const { return present_; }
  const float* words(std::size_t index) const { return inputs_[index].words.device; }
  const float* stats(std::size_t index) const { return inputs_[index].context.device + kKeyFloats; }
  const DropoutKey* key(std::size_t index) const {
    return reinterpret_cast<const DropoutKey*>(inputs_[index].context.device);
  }

 private:
  static constexpr std::int64_t kKeyFloats = 16;  // the key, and what keeps statistics aligned

  struct Pair {
    float *host = nullptr, *device = nullptr;
  };
  struct Input {
    Pair words, context;  // context: the key, then statistics
    Event copied;
    // What has been copied ahead.
    std::uint64_t serial = 0;  // 0: nothing
    const float* stats = nullptr;
    DropoutKey key;
  };

  DeviceInputs(Device& device, std::int64_t batch_floats, std::int64_t stat_floats)
      : device_(device), batch_floats_(batch_floats), stat_floats_(stat_floats) {}
  const Input& next() const { return inputs_[1 - present_]; }
  Status allocate();
  Result<Pair> pair(std::int64_t floats, const char* what);
  bool is_pinned(const Batch& batch) const;
  void copy_words(Input& to, const Batch& batch);
  void copy_context(Input& to, const StepInput& from);
  void copy(const Pair& pair, std::int64_t floats);

  Device& device_;
  const std::int64_t batch_floats_, stat_floats_;
  Stream copy_in_;
  std::span<const float> pinned_;
  Input inputs_[2];
  std::size_t present_ = 0;
};

}  // namespace es::gpu::cuda
