#pragma once
// Kernels over tensors [cells][c] with a thread for each cell and pack of its channels.
#include "gpu/cuda/kernels/pack.h"
#include "gpu/cuda/launch.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// Function has template <int kWidth> void run(cell, channel) const, for the channels [channel,
// channel + kWidth).
template <int kWidth, class Function>
struct PerCell {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;
  std::uint32_t cells, packs;
  Function function;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const auto at = static_cast<std::uint32_t>(thread_in_grid(*this, block));
    const std::uint32_t cell = at / packs;
    if (cell < cells) function.template run<kWidth>(cell, at % packs * kWidth);
  }
};

// `pointers` are all addresses that are read or written in packs.
template <class Function, class... Pointers>
void for_cells(Stream stream, std::int64_t cells, std::int64_t c, const Function& function,
               const Pointers*... pointers) {
  with_pack_width(
      c,
      [&](auto width) {
        using Kernel = PerCell<width, Function>;
        const std::int64_t packs = c / width;
        launch(
            stream, {.x = numbered_blocks_for<Kernel>(cells * packs)},
            Kernel{static_cast<std::uint32_t>(cells), static_cast<std::uint32_t>(packs), function});
      },
      pointers...);
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
