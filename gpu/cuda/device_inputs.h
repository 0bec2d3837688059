#pragma once
// DeviceInputs: what a local step reads besides parameters: a mini-batch, statistics, the key of
// its random numbers. There are two of each: while the device works on those of one step, those of
// the next are copied, on a stream of their own.
//
// Threads: one at a time. Errors: the device's. Memory: twice an input on the device, twice in
// pinned host memory.
#include <cstdint>
#include <memory>
#include <optional>

#include "gpu/cuda/device.h"
#include "gpu/graph/step_runner.h"

namespace es::gpu::cuda {

class DeviceInputs {
 public:
  // Error (failure): missing memory.
  static Result<std::unique_ptr<DeviceInputs>> create(Device& device, std::int64_t batch_floats,
                                                      std::int64_t stat_floats);

  // Copies what enter() will probably be given next; a batch without serial is not. The caller's
  // memory is read before it returns. REQUIRES, as enter(): what read the input before the present
  // one is done.
  void prefetch(const StepInput& input);
  // Statistics in the caller's memory are not what they were.
  void stats_changed();

  // Makes `input` the present one: what is queued on `compute` from now on comes after it, and
  // after everything else that is queued on stream(). Copies what was not prefetched.
  void enter(const StepInput& input, Stream compute);
  Stream stream() const { return copy_in_; }

  // The present one. In device memory.
  std::size_t index() const { return present_; }  // 0 or 1: which of the two
  const float* words() const { return inputs_[present_].words.device; }
  const float* stats() const { return inputs_[present_].context.device + kKeyFloats; }
  const DropoutKey* key() const {
    return reinterpret_cast<const DropoutKey*>(inputs_[present_].context.device);
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
  Status allocate();
  Result<Pair> pair(std::int64_t floats, const char* what);
  void copy_words(Input& to, const Batch& batch);
  void copy_context(Input& to, const StepInput& from);
  void copy(const Pair& pair, std::int64_t floats);

  Device& device_;
  const std::int64_t batch_floats_, stat_floats_;
  Stream copy_in_;
  Input inputs_[2];
  std::size_t present_ = 0;
};

}  // namespace es::gpu::cuda
