#pragma once
// StepRecordings: the work of a local step in pieces, each recorded once and launched as one from
// then on (a CUDA graph). A piece ends where another stream or the host takes part: at the end of
// the forward pass, and where a bucket of gradients is ready. What differs from step to step is
// either read from device memory or in the piece's variant.
//
// The first time a piece is queued as it is, so that libraries have loaded what they need. Where
// the device cannot record a piece, none is recorded any more.
//
// Threads: one at a time. Errors: the device's.
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gpu/cuda/device.h"

namespace es::gpu::cuda {

class StepRecordings {
 public:
  static constexpr std::size_t kVariants = 2;

  StepRecordings(Device& device, std::size_t pieces) : device_(device), pieces_(pieces) {}

  // Queues the work of a piece; queue() would queue it, the same for the same piece and variant.
  void run(Stream stream, std::size_t piece, std::size_t variant,
           const std::function<void()>& queue);

  // Why nothing is recorded; empty: nothing is wrong.
  const std::string& why_none() const { return why_none_; }

 private:
  struct Piece {
    bool ran = false;
    std::array<std::optional<Recording>, kVariants> recordings;
  };

  Device& device_;
  std::vector<Piece> pieces_;
  std::string why_none_;
};

}  // namespace es::gpu::cuda
