#include "gpu/cuda/step_recordings.h"

namespace es::gpu::cuda {

void StepRecordings::run(Stream stream, std::size_t index, std::size_t variant,
                         const std::function<void()>& queue) {
  Piece& piece = pieces_[index];
  // The first execution may load code and allocate memory in libraries, which cannot be captured.
  if (!piece.ran || !why_none_.empty()) {
    piece.ran = true;
    return queue();
  }
  // The two variants have different addresses of inputs and results, and a recording contains
  // addresses.
  std::optional<Recording>& recording = piece.recordings[variant];
  if (!recording) {
    const Result<Recording> made = device_.record_work(stream, queue);
    // Nothing was queued by the failed recording, so the piece is queued as usual.
    if (!made) {
      why_none_ = made.error().message;
      return queue();
    }
    recording = *made;
  }
  device_.launch(stream, *recording);
}

}  // namespace es::gpu::cuda
