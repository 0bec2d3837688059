// Time steps of recurrent layers. A thread computes one unit of one row.
#include "gpu/canonical/recurrent_math.h"
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/kernels/topics.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

struct RecurrentForwardStep {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  RecurrentForward s;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i < s.rows * s.units) recurrent_forward(s, i / s.units, i % s.units, OneFloat());
  }
};

struct RecurrentBackwardStep {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  RecurrentBackward s;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t i = thread_in_grid(*this, block);
    if (i < s.rows * s.units) recurrent_backward(s, i / s.units, i % s.units, OneFloat());
  }
};

void recurrent_fwd(Stream stream, const RecurrentForward& s) {
  launch(stream, {.x = blocks_for<RecurrentForwardStep>(s.rows * s.units)},
         RecurrentForwardStep{s});
}

void recurrent_bwd(Stream stream, const RecurrentBackward& s) {
  launch(stream, {.x = blocks_for<RecurrentBackwardStep>(s.rows * s.units)},
         RecurrentBackwardStep{s});
}

}  // namespace

void add_recurrent(DeviceKernels& kernels) {
  kernels.recurrent_fwd = recurrent_fwd;
  kernels.recurrent_bwd = recurrent_bwd;
}

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
