#include "gpu/cuda/kernels/product_cut.h"

#include "gpu/canonical/scalar_math.h"

namespace es::gpu::cuda {
namespace {

// Number of blocks that keeps every current GPU busy: twice what 132 multiprocessors hold at a
// time, which is two blocks of the largest tile each, and more of smaller tiles.
std::int64_t enough_blocks(std::int64_t side) {
  return 528 * (128 / side);
}
// A tile larger than the smallest needs at least one block for each multiprocessor.
constexpr std::int64_t kFewestBlocks = 132;

std::int64_t tiles(const ProductShape& shape, std::int64_t side) {
  return ceil_div(shape.m, side) * ceil_div(shape.n, side) * shape.count;
}

// A large tile reads less for each result. A smaller tile is better if a large one would lie mostly
// beyond the edge, or if there are too few large ones.
int tile_side(const ProductShape& shape, bool quads) {
  for (const int side : {128, 64}) {
    const std::int64_t half = side / 2;
    const bool full = 4 * tiles(shape, side) * side * side <= 5 * tiles(shape, half) * half * half;
    if ((quads || side < 128) && full &&
        tiles(shape, side) * product_chunks(shape) >= kFewestBlocks) {
      return side;
    }
  }
  return 32;
}

}  // namespace

std::int64_t product_chunks(const ProductShape& shape) {
  return larger(1, ceil_div(shape.k, kDotChunk));
}

ProductCut cut_product(const ProductShape& shape, bool quads) {
  const int side = tile_side(shape, quads);
  const std::int64_t count = tiles(shape, side), chunks = product_chunks(shape);
  const std::int64_t enough = enough_blocks(side);
  // With enough tiles, a block computes all chunks of its tile one after the other. Otherwise
  // several chunks are computed at once into the workspace and added afterwards in ascending order.
  if (chunks == 1 || 2 * count >= enough) return {side, 0};
  return {side, smaller(chunks, ceil_div(enough, count))};
}

std::size_t product_workspace_floats(const ProductShape& shape) {
  // Whether quads can be used depends on addresses, which are not known here. The workspace must be
  // large enough for both cases.
  const std::int64_t at_once =
      larger(cut_product(shape, true).at_once, cut_product(shape, false).at_once);
  return static_cast<std::size_t>(at_once * shape.m * shape.n * shape.count);
}

}  // namespace es::gpu::cuda
