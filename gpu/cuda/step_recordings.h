#pragma once
// StepRecordings divides the work of a local step into pieces. Each piece is recorded once and then
// launched as one unit (a CUDA graph). A piece ends where another stream or the host takes part: at
// the end of the forward pass, and where a bucket of gradients is ready. What differs from step to
// step is read from device memory or belongs to the variant of the piece.
//
// A piece is queued without recording the first time, so that libraries have loaded what they need.
// If the device cannot record a piece, no piece is recorded from then on.
//
// Threads: one at a time. Errors: those of the device.
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

  // Queues the work of a piece. `queue` queues this work; it queues the same work for the same
  // piece and variant every time.
  void run(Stream stream, std::size_t piece, std::size_t variant,
           const std::function<void()>& queue);

  // Returns why nothing is recorded; empty: there was no problem.
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
