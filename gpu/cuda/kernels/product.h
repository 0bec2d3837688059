#pragma once
// Dense products C = A B on tiles (tile.h): the kernel, and the division of a product into blocks.
//
// A block computes one tile. It goes through the chunks of 512 k and adds their results in C. If
// there are few tiles and many chunks, as in weight gradients, blocks compute the chunk results
// concurrently in the workspace, and a second kernel adds them in ascending order. The division of
// a product changes no bit.
#include <cstddef>
#include <cstdint>

#include "gpu/canonical/scalar_math.h"
#include "gpu/cuda/kernels/operands.h"
#include "gpu/cuda/kernels/product_cut.h"
#include "gpu/cuda/kernels/walk.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// The target: element (row, col) of matrix i. Its rows are either `row` floats apart, or they are
// the pixels of a part of an image: row = (image, r, c) is its pixel (first_row + r * step,
// first_col + c * step).
struct PixelRows {
  Divider per_image, per_row;  // of the part
  std::uint32_t first_row = 0, first_col = 0, step = 1;
  std::uint32_t height = 0, width = 0;  // of the image; height 0: the rows are not pixels
  ES_HD std::int64_t pixel(std::uint32_t row) const {
    const Divider::Parts image = per_image(row), at = per_row(image.rest);
    return (std::int64_t{image.quotient} * height + first_row + at.quotient * step) * width +
           first_col + at.rest * step;
  }
};
struct Target {
  float* c;
  std::int64_t row, col = 1;
  BatchSteps batch;
  bool quads = false;  // four neighbouring columns are one access
  PixelRows pixels;
  bool add = false;  // the chunks are added to what C contains, as later ones are
  ES_HD float* row_at(std::uint32_t r, const BatchIndex& index) const {
    return c + index.offset(batch) + (pixels.height == 0 ? r : pixels.pixel(r)) * row;
  }
};
// Added after the sum; nullptr: nothing.
struct Bias {
  const float* values = nullptr;
  std::int64_t inner_step = 0;  // from one inner batch index to the next
};

template <int kSide, class A, class B>
struct Product {
  using Tiles = Tile<kSide>;
  static constexpr unsigned kThreads = Tiles::kThreads;
  static constexpr unsigned kBlocksAtOnce = kSide == 128 ? 2 : 1;
  // The place of a block: the first row and column of its tile in product `index`, and its chunk
  // (only with `parallel`).
  struct Place {
    std::uint32_t row, col, chunk;
    std::uint32_t part;  // chunk * products + product
    BatchIndex index;
  };
  struct Shared {
    typename Tiles::Shared tiles;
    Place place;
  };

  A a;
  B b;
  Target target;
  Bias bias;
  std::uint32_t m, n, k;
  Divider tiles_down, tiles_across, batch, inner;
  // Parallel: a block computes the result of one chunk, from first_chunk on. The target is the
  // workspace, [chunk][product][m][n], and part_step = m * n.
  bool parallel;
  std::uint32_t first_chunk;
  std::int64_t part_step;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared& shared) const {
    const Place place = place_of(block.x());
    const auto thread_a = a.template at<kSide>(block.thread(), place.row, place.index);
    const auto thread_b = b.template at<kSide>(block.thread(), place.col, place.index);
    // Kept in shared memory, where it needs no register during the sums.
    if (block.thread() == 0) shared.place = place;
    typename Tiles::Sums sums;
    std::uint32_t begin = parallel ? (first_chunk + place.chunk) * chunk_length() : 0;
    const std::uint32_t last = parallel ? chunk_end(begin) : k;
    for (bool first = true; first || begin < last; first = false, begin += chunk_length()) {
      Tiles::chain(block, shared.tiles, thread_a, thread_b, begin, chunk_end(begin), sums);
      write(block.thread(), shared.place, sums, first && !target.add,
            chunk_end(begin) == k ? bias.values : nullptr);
    }
  }

 private:
  ES_HD static std::uint32_t chunk_length() { return kDotChunk; }
  ES_HD std::uint32_t chunk_end(std::uint32_t begin) const {
    return begin + chunk_length() < k ? begin + chunk_length() : k;
  }

  ES_HD Place place_of(std::uint32_t x) const {
    // Consecutive blocks differ in their row first, so blocks that run together share columns of B.
    const Divider::Parts down = tiles_down(x), across = tiles_across(down.quotient),
                         item = batch(across.quotient), index = inner(item.rest);
    return {down.rest * kSide,
            across.rest * kSide,
            item.quotient,
            across.quotient,
            {index.quotient, index.rest}};
  }

  ES_HD void write(unsigned thread, const Place& place, const typename Tiles::Sums& sums,
                   bool first, const float* added) const {
    if (added != nullptr) added += place.index.inner * bias.inner_step;
    ES_UNROLL
    for (int i = 0; i < Tiles::kRows; ++i) {
      const std::uint32_t row = place.row + Tiles::row(thread, i / 4) + i % 4;
      if (row >= m) continue;
      float* c = target.row_at(row, place.index) + place.part * part_step;
      ES_UNROLL
      for (int q = 0; q < Tiles::kColQuads; ++q) {
        const std::uint32_t col = place.col + Tiles::col(thread, q);
        const float* sum = sums[i] + 4 * q;
        if (target.quads && col + 4 <= n) {
          const Quad old = first ? Quad{} : load_quad(c + col);
          store_quad(c + col, {{finished(old.v[0], sum[0], added, col),
                                finished(old.v[1], sum[1], added, col + 1),
                                finished(old.v[2], sum[2], added, col + 2),
                                finished(old.v[3], sum[3], added, col + 3)}});
          continue;
        }
        ES_UNROLL
        for (int j = 0; j < 4; ++j) {
          if (col + j >= n) continue;
          float& c_at = c[(col + j) * target.col];
          c_at = finished(first ? 0.0f : c_at, sum[j], added, col + j);
        }
      }
    }
  }
  ES_HD static float finished(float old, float chunk, const float* added, std::uint32_t col) {
    const float sum = old + chunk;
    return added == nullptr ? sum : sum + added[col];
  }
};

// Adds the chunk results of a launch in ascending order to +0, or to the contents of C.
struct AddChunks {
  static constexpr unsigned kThreads = 256;
  using Shared = NoShared;

  const float* parts;
  std::uint32_t chunks;
  Target target;
  Bias bias;
  bool first, last;        // whether it is the first or last launch of this product
  std::uint32_t elements;  // of all products
  Divider n, m, inner;

  template <class Block>
  ES_HD void operator()(const Block& block, Shared&) const {
    const std::uint32_t i = block.x() * kThreads + block.thread();
    if (i >= elements) return;
    const Divider::Parts line = n(i), item = m(line.quotient), index = inner(item.quotient);
    const BatchIndex at{index.quotient, index.rest};
    float& c = target.row_at(item.rest, at)[line.rest * target.col];
    float sum = first ? 0.0f : c;
    walk_run<16>(
        chunks, [&](std::int64_t chunk) { return parts[chunk * elements + i]; },
        [&](float part) { sum = sum + part; });
    const bool biased = last && bias.values != nullptr;
    c = biased ? sum + bias.values[at.inner * bias.inner_step + line.rest] : sum;
  }
};

template <int kSide, class A, class B>
void multiply_tiles(Stream stream, const ProductShape& shape, std::int64_t at_once, const A& a,
                    const B& b, const Target& target, const Bias& bias, float* ws) {
  const std::int64_t down = ceil_div(shape.m, kSide), across = ceil_div(shape.n, kSide);
  Product<kSide, A, B> product{
      .a = a,
      .b = b,
      .target = target,
      .bias = bias,
      .m = static_cast<std::uint32_t>(shape.m),
      .n = static_cast<std::uint32_t>(shape.n),
      .k = static_cast<std::uint32_t>(shape.k),
      .tiles_down = Divider(down),
      .tiles_across = Divider(across),
      .batch = Divider(shape.count),
      .inner = Divider(shape.inner),
      .parallel = false,
      .first_chunk = 0,
      .part_step = 0,
  };
  const std::int64_t tiles = down * across * shape.count;
  if (at_once == 0) return launch(stream, {.x = tiles}, product);

  product.parallel = true;
  product.part_step = shape.m * shape.n;
  // The type is written out because the CUDA compiler (13.0) forgets the names of the members in a
  // list without a type that is assigned in a template, and takes them in their order
  // (check_tree.py finds such lists).
  product.target = Target{.c = ws, .row = shape.n, .quads = in_quads(ws, shape.n), .pixels = {}};
  product.bias = {};
  const std::int64_t elements = shape.m * shape.n * shape.count, chunks = product_chunks(shape);
  AddChunks add{.parts = ws,
                .chunks = 0,
                .target = target,
                .bias = bias,
                .first = true,
                .last = false,
                .elements = static_cast<std::uint32_t>(elements),
                .n = Divider(shape.n),
                .m = Divider(shape.m),
                .inner = Divider(shape.inner)};
  for (std::int64_t chunk = 0; chunk < chunks; chunk += at_once) {
    add.chunks = static_cast<std::uint32_t>(smaller(at_once, chunks - chunk));
    add.first = chunk == 0 && !target.add;
    add.last = chunk + add.chunks == chunks;
    product.first_chunk = static_cast<std::uint32_t>(chunk);
    launch(stream, {.x = tiles * add.chunks}, product);
    launch(stream, {.x = ceil_div(elements, AddChunks::kThreads)}, add);
  }
}

// `ws` has product_workspace_floats(shape) floats.
template <class A, class B>
void multiply(Stream stream, const ProductShape& shape, const A& a, const B& b,
              const Target& target, const Bias& bias, float* ws) {
  const ProductCut cut = cut_product(shape, a.quads && b.quads);
  const auto tiles = cut.side == 128  ? multiply_tiles<128, A, B>
                     : cut.side == 64 ? multiply_tiles<64, A, B>
                                      : multiply_tiles<32, A, B>;
  tiles(stream, shape, cut.at_once, a, b, target, bias, ws);
}

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
