// Exact products of planes of digits (exact_planes.h) on tensor cores from sm_75 on.
#include "gpu/cuda/kernels/exact_planes.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// A block has kRows x kCols results, each of its four runs of 32 threads a quarter of them. The
// sizes are the largest ones of which a multiprocessor has room for two blocks, one of which
// multiplies while the other one writes.
template <int kDigits>
struct ExactTiles : PlaneProduct<kDigits> {
  static constexpr unsigned kThreads = 128;
  static constexpr int kRows = 64, kCols = kDigits == 2 ? 64 : 32;
  static constexpr int kLevels = PlaneProduct<kDigits>::kLevels;
  static constexpr int kDown = kRows / 2 / 16, kAcross = kCols / 2 / 8;  // products of a run

  using typename PlaneProduct<kDigits>::Tile;
  struct Stage {
    alignas(16) SharedDigits<kDigits, kRows> a;
    SharedDigits<kDigits, kCols> b;
  };
  struct Shared {
    Stage stages[2];
  };
  using Sums = std::int32_t[kDown][kAcross][4][kLevels];

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const Tile tile = this->tile(block.x());
    const Place place(block.thread());
    fetch(block, shared.stages[0], tile, 0);
    std::uint32_t step = 0;
    for (std::uint32_t chunk = 0; chunk < this->a.chunks; ++chunk) {
      Sums sums = {};
      for (const std::uint32_t end = this->chunk_end(chunk); step < end; ++step) {
        block.template await_copies<0>();
        block.sync();  // The stage is complete, and no thread reads the other one.
        if (step + 1 < this->a.steps) fetch(block, shared.stages[(step + 1) % 2], tile, step + 1);
        ES_UNROLL
        for (int unit = 0; unit < kStepUnits; unit += 2)
          add_products(block, shared.stages[step % 2], place, unit, sums);
      }
      write(tile, place, chunk, sums);
    }
  }

 private:
  // The quarter of a run, and the place of a thread in a core matrix.
  struct Place {
    ES_HD explicit Place(unsigned thread)
        : top(thread / 64 * (kRows / 2)),
          left(thread / 32 % 2 * (kCols / 2)),
          line(thread % 32 / 4),
          word(thread % 4) {}
    unsigned top, left, line, word;
  };

  template <class Block>
  ES_HD void fetch(const Block& block, Stage& stage, const Tile& tile, std::uint32_t step) const {
    const std::uint8_t* const a = this->a.at(tile.product, tile.down, step);
    constexpr int kUnitsOfA = kDigits * kStepUnits * kRows,
                  kUnitsOfB = kDigits * kStepUnits * kCols;
    for (int i = static_cast<int>(block.thread()); i < kUnitsOfA; i += kThreads)
      block.copy_16(&stage.a[0][0][0][0] + i * kUnit, a + i * kUnit);
    // Columns of B: a part of a panel.
    const std::uint32_t col = tile.across * kCols;
    const std::uint8_t* const b =
        this->b.at(tile.product, col / kPanelRows, step) + col % kPanelRows * kUnit;
    for (int i = static_cast<int>(block.thread()); i < kUnitsOfB; i += kThreads)
      block.copy_16(&stage.b[0][0][0][0] + i * kUnit,
                    b + (i / kCols * kPanelRows + i % kCols) * kUnit);
    block.end_copies();
  }

  ES_HD static std::uint32_t word(const std::uint8_t (&unit)[kUnit], unsigned i) {
    return reinterpret_cast<const std::uint32_t*>(unit)[i];
  }

  // Adds the products of the 32 k of two units. The four words of A are the core matrices of rows 0
  // to 7 and 8 to 15 of the first unit, then those of the second unit.
  template <class Block>
  ES_HD void add_products(const Block& block, const Stage& stage, const Place& at, int unit,
                          Sums& sums) const {
    std::uint32_t b[kDigits][kAcross][2];
    ES_UNROLL
    for (int t = 0; t < kDigits; ++t) {
      ES_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        ES_UNROLL
        for (int i = 0; i < 2; ++i)
          b[t][j][i] = word(stage.b[t][unit + i][at.left + 8 * j + at.line], at.word);
      }
    }
    ES_UNROLL
    for (int row = 0; row < kDown; ++row) {
      ES_UNROLL
      for (int s = 0; s < kDigits; ++s) {
        std::uint32_t a[4];
        ES_UNROLL
        for (int i = 0; i < 4; ++i)
          a[i] = word(stage.a[s][unit + i / 2][at.top + 16 * row + i % 2 * 8 + at.line], at.word);
        ES_UNROLL
        for (int t = 0; t < kDigits; ++t) {
          ES_UNROLL
          for (int j = 0; j < kAcross; ++j) add_product(block, s, t, a, b[t][j], sums[row][j]);
        }
      }
    }
  }

  template <class Block>
  ES_HD static void add_product(const Block& block, int s, int t, const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2], std::int32_t (&sums)[4][kLevels]) {
    std::int32_t c[4];
    ES_UNROLL
    for (int i = 0; i < 4; ++i) c[i] = sums[i][s + t];
    with_signs<kDigits>(s, t, [&](auto signed_a, auto signed_b) {
      block.template add_product<signed_a(), signed_b()>(c, a, b);
    });
    ES_UNROLL
    for (int i = 0; i < 4; ++i) sums[i][s + t] = c[i];
  }

  ES_HD void write(const Tile& tile, const Place& at, std::uint32_t chunk, const Sums& sums) const {
    ES_UNROLL
    for (int i = 0; i < kDown; ++i) {
      ES_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        ES_UNROLL
        for (int r = 0; r < 4; ++r)
          PlaneProduct<kDigits>::write(
              tile.product, tile.down * kRows + at.top + 16 * i + r / 2 * 8 + at.line,
              tile.across * kCols + at.left + 8 * j + 2 * at.word + r % 2, chunk, sums[i][j][r]);
      }
    }
  }
};

}  // namespace

template <int kDigits>
void multiply_planes_in_tiles(Stream stream, std::int64_t count, const Planes<kDigits>& a,
                              const Planes<kDigits>& b, const ExactTarget& target) {
  launch_tiles<ExactTiles<kDigits>>(stream, count, a, b, target);
}
template void multiply_planes_in_tiles(Stream, std::int64_t, const Planes<2>&, const Planes<2>&,
                                       const ExactTarget&);
template void multiply_planes_in_tiles(Stream, std::int64_t, const Planes<3>&, const Planes<3>&,
                                       const ExactTarget&);

}  // namespace es::gpu::cuda::ES_CUDA_SPACE
