// Exact products of planes of digits (exact_planes.h) on the tensor cores of capability 9.0, whose
// groups of 128 threads multiply directly from shared memory.
#include "gpu/cuda/kernels/exact_planes.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// A block has two groups with 64 x 64 results each, and a third one of which a run of 32 threads
// copies ahead of them; it gives its registers to the two. Barriers `full` end when a stage has
// been copied, `empty` when no product reads it any more.
template <int kDigits>
struct ExactGroups : PlaneProduct<kDigits> {
  static constexpr bool kOnlyHopper = true;
  static constexpr int kGroups = 2, kRows = kGroups * kPanelRows, kCols = kPanelRows;
  static constexpr unsigned kGroupThreads = 128, kThreads = (kGroups + 1) * kGroupThreads;
  static constexpr int kLevels = PlaneProduct<kDigits>::kLevels;
  static constexpr std::uint32_t kStages = 4;

  using typename PlaneProduct<kDigits>::Tile;
  using typename PlaneProduct<kDigits>::Operand;
  struct Stage {
    SharedDigits<kDigits, kPanelRows> a[kGroups], b;
  };
  struct Shared {
    alignas(128) Stage stages[kStages];
    Barrier full[kStages], empty[kStages];
  };
  using Sums = std::int32_t[kLevels][32];

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const Tile tile = this->tile(block.x());
    // The last tile may have rows for one group only.
    const std::uint32_t group = block.thread() / kGroupThreads, panel = tile.down * kGroups;
    const std::uint32_t groups = this->a.panels - panel < kGroups ? 1 : kGroups;
    if (block.thread() == 0) {
      for (std::uint32_t i = 0; i < kStages; ++i) {
        block.init(shared.full[i], 1);
        block.init(shared.empty[i], groups * (kGroupThreads / 32));
      }
      block.publish_barriers();
    }
    block.sync();
    if (group == kGroups) {
      block.template set_registers<24>();
      if (block.thread() % kGroupThreads < 32) copy_steps(block, shared, tile, panel, groups);
    } else if (group < groups) {
      block.template set_registers<240>();
      multiply_steps(block, shared, tile, group);
    }
  }

 private:
  ES_HD static std::uint32_t parity(std::uint32_t step) { return step / kStages % 2; }

  template <class Block>
  ES_HD void copy_steps(const Block& block, Shared& shared, const Tile& tile, std::uint32_t panel,
                        std::uint32_t groups) const {
    constexpr std::uint32_t kBytes = Operand::kStepBytes;
    for (std::uint32_t step = 0; step < this->a.steps; ++step) {
      Stage& stage = shared.stages[step % kStages];
      Barrier& full = shared.full[step % kStages];
      block.await(shared.empty[step % kStages], parity(step) ^ 1);
      if (block.thread() % 32 != 0) continue;
      block.expect(full, (groups + 1) * kBytes);
      for (std::uint32_t i = 0; i < groups; ++i)
        block.copy(stage.a[i], this->a.at(tile.product, panel + i, step), kBytes, full);
      block.copy(stage.b, this->b.at(tile.product, tile.across, step), kBytes, full);
    }
  }

  template <class Block>
  ES_HD void multiply_steps(const Block& block, Shared& shared, const Tile& tile,
                            std::uint32_t group) const {
    std::uint32_t step = 0;
    for (std::uint32_t chunk = 0; chunk < this->a.chunks; ++chunk) {
      Sums sums = {};
      const std::uint32_t begin = step, end = this->chunk_end(chunk);
      for (; step < end; ++step) {
        block.await(shared.full[step % kStages], parity(step));
        block.begin_products(sums);
        add_products(block, shared.stages[step % kStages], group, sums);
        block.end_products();
        // The products of this step run while those of the next one are prepared.
        block.template await_products<1>(sums);
        if (step > begin) release(block, shared, step - 1);
      }
      block.template await_products<0>(sums);
      release(block, shared, end - 1);
      write(block.thread() % kGroupThreads, tile, group, chunk, sums);
    }
  }
  template <class Block>
  ES_HD static void release(const Block& block, Shared& shared, std::uint32_t step) {
    if (block.thread() % 32 == 0) block.arrive(shared.empty[step % kStages]);
  }

  template <class Block>
  ES_HD static void add_products(const Block& block, const Stage& stage, std::uint32_t group,
                                 Sums& sums) {
    constexpr std::uint32_t kAcross = kPanelRows * kUnit;
    ES_UNROLL
    for (int unit = 0; unit < kStepUnits; unit += 2) {
      ES_UNROLL
      for (int s = 0; s < kDigits; ++s) {
        ES_UNROLL
        for (int t = 0; t < kDigits; ++t) {
          const std::uint64_t a = matrix_at(block.address(stage.a[group][s][unit]), kAcross),
                              b = matrix_at(block.address(stage.b[t][unit]), kAcross);
          with_signs<kDigits>(s, t, [&](auto signed_a, auto signed_b) {
            block.template add_products<signed_a(), signed_b()>(sums[s + t], a, b);
          });
        }
      }
    }
  }
  // A run has 16 rows of its group. Four results of a thread are those of eight columns.
  ES_HD void write(std::uint32_t thread, const Tile& tile, std::uint32_t group, std::uint32_t chunk,
                   const Sums& sums) const {
    const std::uint32_t row =
        tile.down * kRows + group * kPanelRows + thread / 32 * 16 + thread % 32 / 4;
    const std::uint32_t col = tile.across * kCols + thread % 4 * 2;
    ES_UNROLL
    for (int i = 0; i < 32; ++i) {
      std::int32_t level[kLevels];
      ES_UNROLL
      for (int l = 0; l < kLevels; ++l) level[l] = sums[l][i];
      PlaneProduct<kDigits>::write(tile.product, row + i / 2 % 2 * 8, col + i / 4 * 8 + i % 2,
                                   chunk, level);
    }
  }
};

}  // namespace

template <int kDigits>
void multiply_planes_in_groups(Stream stream, std::int64_t count, const Planes<kDigits>& a,
                               const Planes<kDigits>& b, const ExactTarget& target) {
  launch_tiles<ExactGroups<kDigits>>(stream, count, a, b, target);
}
template void multiply_planes_in_groups(Stream, std::int64_t, const Planes<2>&, const Planes<2>&,
                                        const ExactTarget&);
template void multiply_planes_in_groups(Stream, std::int64_t, const Planes<3>&, const Planes<3>&,
                                        const ExactTarget&);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
