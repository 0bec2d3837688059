#pragma once
// BatchPool: the memory for the mini-batches of one worker process, a fixed number of slots that
// loaders fill and the device reads. Messages contain the number of a slot. A slot has one user at
// a time, and the messages that hand it over order the accesses, so no lock is needed.
#include <cstdint>
#include <span>

#include "gpu/base/aligned_buffer.h"

namespace es::actors {

class BatchPool {
 public:
  // `batch_words` is the number of 32-bit words of one mini-batch (proto/base/sample_layout.h).
  // REQUIRES: slots >= 1. Throws gpu::NoMemory.
  BatchPool(std::uint32_t slots, std::size_t batch_words)
      : slots_(slots),
        batch_words_(batch_words),
        words_(static_cast<std::int64_t>(slots * batch_words), "mini-batches") {}

  std::uint32_t slots() const { return slots_; }
  std::span<const float> all_words() const {
    return {words_.data(), static_cast<std::size_t>(words_.floats())};
  }
  std::span<float> words(std::uint32_t slot) {
    return {words_.data() + slot * batch_words_, batch_words_};
  }

 private:
  std::uint32_t slots_;
  std::size_t batch_words_;
  gpu::AlignedBuffer words_;
};

}  // namespace es::actors
