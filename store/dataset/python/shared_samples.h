#pragma once
// SharedSamples is memory that a worker and one of its loader processes share: the indices of the
// samples that the worker asks for, and the samples that the loader process writes. Its size is
// sealed, so no process can take it away from under the other one. Who may access it at a time
// follows from the messages of LoaderChannel.
#include <cstdint>
#include <memory>
#include <span>

#include "proto/base/file_descriptor.h"
#include "proto/base/result.h"

namespace es::store {

class SharedSamples {
 public:
  // Memory for `samples` samples of `sample_bytes` each. Error (failure): there is not enough.
  static Result<std::unique_ptr<SharedSamples>> create(std::uint32_t samples,
                                                       std::size_t sample_bytes);
  ~SharedSamples();
  SharedSamples(const SharedSamples&) = delete;
  SharedSamples& operator=(const SharedSamples&) = delete;

  int descriptor() const { return descriptor_.get(); }
  std::uint32_t samples() const { return samples_; }
  std::size_t sample_bytes() const { return sample_bytes_; }

  // The memory begins with the indices, one u64 for each sample, and the samples follow.
  std::span<std::uint64_t> indices() {
    return {reinterpret_cast<std::uint64_t*>(memory_), samples_};
  }
  // The content may change at any time, because the loader process may be out of order.
  std::span<const std::uint8_t> sample(std::size_t position) const {
    return {memory_ + samples_ * sizeof(std::uint64_t) + position * sample_bytes_, sample_bytes_};
  }

 private:
  SharedSamples(int descriptor, std::uint32_t samples, std::size_t sample_bytes)
      : descriptor_(descriptor), samples_(samples), sample_bytes_(sample_bytes) {}
  std::size_t bytes() const { return samples_ * (sizeof(std::uint64_t) + sample_bytes_); }
  Status map();

  FileDescriptor descriptor_;
  std::uint32_t samples_;
  std::size_t sample_bytes_;
  std::uint8_t* memory_ = nullptr;
};

}  // namespace es::store
