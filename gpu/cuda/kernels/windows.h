#pragma once
// Operands of convolutions as products (operands.h). No operand is written to memory: the address
// of an element is computed from (pixel, tap, channel). Elements in the padding are +0.
#include "gpu/cuda/kernels/operands.h"

namespace es::gpu::cuda::ES_CUDA_SPACE {
namespace {

// An image tensor [n][height][width][stride], of which a group of channels begins at p.
struct Image {
  const float* p;
  std::uint32_t height, width, stride;
  ES_HD bool has(std::int32_t row, std::int32_t col) const {
    return static_cast<std::uint32_t>(row) < height && static_cast<std::uint32_t>(col) < width;
  }
  // REQUIRES: the pixel lies in the image; there are fewer than 2^31 pixels.
  ES_HD std::int64_t at(std::uint32_t n, std::int32_t row, std::int32_t col) const {
    return std::int64_t{(n * height + row) * width + col} * stride;
  }
};

// The pixels of a grid in each image, and the origins of their windows: row = origin_row + r *
// step.
struct PixelGrid {
  Divider per_image, per_row;
  std::int32_t origin_row, origin_col, step;
  struct Start {
    std::uint32_t n;
    std::int32_t row, col;
  };
  ES_HD Start start(std::uint32_t pixel) const {
    const Divider::Parts image = per_image(pixel), at = per_row(image.rest);
    return {image.quotient, origin_row + static_cast<std::int32_t>(at.quotient) * step,
            origin_col + static_cast<std::int32_t>(at.rest) * step};
  }
};

// k = (tap row, tap column, channel).
struct TapOrder {
  Divider channels, cols;
  struct Tap {
    std::int32_t row, col;
    std::uint32_t channel;
  };
  ES_HD Tap tap(std::uint32_t k) const {
    const Divider::Parts channel = channels(k), at = cols(channel.quotient);
    return {static_cast<std::int32_t>(at.quotient), static_cast<std::int32_t>(at.rest),
            channel.rest};
  }
};

// Row = pixel, k = (tap, channel): the window of a pixel. The positions of a window advance by
// `direction`, +1 or -1.
struct WindowsByPixel {
  Image image;
  PixelGrid grid;
  TapOrder taps;
  std::int32_t direction;
  std::uint32_t rows;
  BatchSteps batch;
  bool quads;  // four channels are one access

  template <int kSide>
  struct Thread {
    using Placed = QuadAlongDepth<kSide>;
    const WindowsByPixel& all;
    const float* p;  // of the image
    std::int32_t row, col;
    unsigned thread;

    ES_HD void put(const Quad& q, float* stage) const { Placed::put(thread, q, stage); }
    ES_HD const float* find(std::uint32_t k) const {
      const TapOrder::Tap tap = all.taps.tap(k);
      const std::int32_t r = row + all.direction * tap.row, c = col + all.direction * tap.col;
      return all.image.has(r, c) ? p + all.image.at(0, r, c) + tap.channel : nullptr;
    }
    ES_HD Quad fetch(std::uint32_t k, std::uint32_t end) const {
      const std::uint32_t first = k + Placed::depth(thread);
      if (only_quads<kSide>() || all.quads) {
        const float* at = first < end ? find(first) : nullptr;
        return at != nullptr ? load_quad(at) : Quad{};
      }
      return gather_quad(first < end ? end - first : 0, [&](int i) {
        const float* at = find(first + i);
        return at != nullptr ? *at : 0.0f;
      });
    }
  };

  // Pixels beyond the end produce results that are discarded.
  template <int kSide>
  ES_HD Thread<kSide> at(unsigned thread, std::uint32_t first_row, const BatchIndex& index) const {
    const std::uint32_t row = first_row + QuadAlongDepth<kSide>::row(thread);
    const PixelGrid::Start start = grid.start(row < rows ? row : rows - 1);
    return {*this, image.p + index.offset(batch) + image.at(start.n, 0, 0), start.row, start.col,
            thread};
  }
};

// Row = (tap, channel), k = pixel: the same elements, for weight gradients.
struct WindowsByTap {
  Image image;
  PixelGrid grid;
  TapOrder taps;
  std::uint32_t rows;
  BatchSteps batch;
  bool quads;

  template <int kSide>
  struct Thread {
    using Placed = QuadAlongRows<kSide>;
    const WindowsByTap& all;
    const float* p;     // with quads: address of the first row's channel
    TapOrder::Tap tap;  // of the first row
    std::uint32_t row;
    unsigned thread;

    ES_HD void put(const Quad& q, float* stage) const { Placed::put(thread, q, stage); }
    ES_HD const float* find(const PixelGrid::Start& start, const TapOrder::Tap& t) const {
      const std::int32_t r = start.row + t.row, c = start.col + t.col;
      return all.image.has(r, c) ? p + all.image.at(start.n, r, c) : nullptr;
    }
    ES_HD Quad fetch(std::uint32_t k, std::uint32_t end) const {
      const std::uint32_t pixel = k + Placed::depth(thread);
      if (pixel >= end) return Quad{};
      const PixelGrid::Start start = all.grid.start(pixel);
      if (only_quads<kSide>() || all.quads) {
        const float* at = find(start, tap);
        return at != nullptr ? load_quad(at) : Quad{};
      }
      return gather_quad(row < all.rows ? all.rows - row : 0, [&](int i) {
        const TapOrder::Tap t = all.taps.tap(row + i);
        const float* at = find(start, t);
        return at != nullptr ? at[t.channel] : 0.0f;
      });
    }
  };

  template <int kSide>
  ES_HD Thread<kSide> at(unsigned thread, std::uint32_t first_row, const BatchIndex& index) const {
    std::uint32_t row = first_row + QuadAlongRows<kSide>::row(thread);
    if (quads && row >= rows) row = rows - 4;
    const TapOrder::Tap tap = taps.tap(row < rows ? row : 0);
    return {*this, image.p + index.offset(batch) + (quads ? tap.channel : 0), tap, row, thread};
  }
};

// The weights [oc][kernel taps][channels] of a data gradient: row = channel, k = (tap, oc) over the
// taps first + i * step in both directions.
struct WeightsByTap {
  const float* p;
  TapOrder taps;  // its "channel" is oc
  std::int64_t oc_step;
  std::uint32_t first_row, first_col, step, kernel_width, channels;
  std::uint32_t rows;  // equal to `channels`
  BatchSteps batch;
  bool quads;

  template <int kSide>
  struct Thread {
    using Placed = QuadAlongRows<kSide>;
    const WeightsByTap& all;
    const float* p;  // of the first row
    std::uint32_t left;
    unsigned thread;

    ES_HD void put(const Quad& q, float* stage) const { Placed::put(thread, q, stage); }
    ES_HD Quad fetch(std::uint32_t k, std::uint32_t end) const {
      const std::uint32_t first = k + Placed::depth(thread);
      if (first >= end) return Quad{};
      const TapOrder::Tap tap = all.taps.tap(first);
      const std::uint32_t kernel_tap = (all.first_row + tap.row * all.step) * all.kernel_width +
                                       all.first_col + tap.col * all.step;
      const float* at = p + tap.channel * all.oc_step + kernel_tap * all.channels;
      if (only_quads<kSide>() || all.quads) return load_quad(at);
      return gather_quad(left, [&](int i) { return at[i]; });
    }
  };

  template <int kSide>
  ES_HD Thread<kSide> at(unsigned thread, std::uint32_t first_row_of_tile,
                         const BatchIndex& index) const {
    std::uint32_t row = first_row_of_tile + QuadAlongRows<kSide>::row(thread);
    const std::uint32_t left = row < rows ? rows - row : 0;
    if (quads && left == 0) row = rows - 4;
    return {*this, p + index.offset(batch) + row, left, thread};
  }
};

}  // namespace
}  // namespace es::gpu::cuda::ES_CUDA_SPACE
