#include "store/dataset/images/resize.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::store {
namespace {

constexpr int kWeightBits = 22;
constexpr std::size_t kChannels = 3;

// The input positions that each output position of a side reads.
struct Taps {
  struct Range {
    std::uint32_t begin;  // first input position
    std::uint32_t count;
    std::size_t weights;  // index of its first weight
  };
  std::vector<Range> ranges;
  std::vector<std::int32_t> weights;
};

double triangle(double x) {
  if (x < 0) x = -x;
  return x < 1 ? 1 - x : 0.0;
}

// Appends the weights of the inputs [range.begin, range.begin + range.count) around `centre`.
void append_weights(const Taps::Range& range, double centre, double per_scale, Taps& taps) {
  std::vector<double> exact(range.count);
  double sum = 0;
  for (std::uint32_t i = 0; i < range.count; ++i) {
    exact[i] = triangle((i + range.begin - centre + 0.5) * per_scale);
    sum += exact[i];
  }
  for (const double weight : exact)
    // Fixed-point weights: the sums over pixels are then integers, which do not depend on the order
    // of additions or on the processor.
    taps.weights.push_back(static_cast<std::int32_t>(0.5 + weight / sum * (1 << kWeightBits)));
}

// Computes the weights for `in` input and `out` output positions.
Taps make_taps(std::uint32_t in, std::uint32_t out) {
  const double scale = static_cast<double>(in) / out;
  const double support = std::max(scale, 1.0);
  const double per_scale = 1.0 / support;
  Taps taps;
  for (std::uint32_t p = 0; p < out; ++p) {
    const double centre = (p + 0.5) * scale;
    const double low = centre - support + 0.5, high = centre + support + 0.5;
    const auto begin = static_cast<std::uint32_t>(std::max(low, 0.0));
    const auto end = std::min(static_cast<std::uint32_t>(high), in);
    taps.ranges.push_back({begin, end - begin, taps.weights.size()});
    append_weights(taps.ranges.back(), centre, per_scale, taps);
  }
  return taps;
}

std::uint8_t rounded(std::int32_t sum) {
  // Rounded weights may add up to slightly more than 1, so a sum may exceed 255.
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

constexpr std::int32_t kRoundingHalf = 1 << (kWeightBits - 1);

// Resizes one row of the image to taps.ranges.size() pixels.
void resize_row(const std::uint8_t* row, const Taps& taps, std::uint8_t* out) {
  for (const Taps::Range& range : taps.ranges) {
    std::int32_t sums[kChannels] = {kRoundingHalf, kRoundingHalf, kRoundingHalf};
    const std::uint8_t* pixel = row + range.begin * kChannels;
    for (std::uint32_t i = 0; i < range.count; ++i)
      for (std::size_t c = 0; c < kChannels; ++c)
        sums[c] += *pixel++ * taps.weights[range.weights + i];
    for (std::size_t c = 0; c < kChannels; ++c) *out++ = rounded(sums[c]);
  }
}

// Computes one output row from the rows that it reads.
void mix_rows(const std::uint8_t* rows, const Taps& taps, const Taps::Range& range,
              std::span<std::int32_t> sums, std::span<std::uint8_t> out) {
  std::ranges::fill(sums, kRoundingHalf);
  for (std::uint32_t i = 0; i < range.count; ++i) {
    const std::uint8_t* row = rows + (range.begin + i) * out.size();
    const std::int32_t weight = taps.weights[range.weights + i];
    for (std::size_t p = 0; p < out.size(); ++p) sums[p] += row[p] * weight;
  }
  for (std::size_t p = 0; p < out.size(); ++p) out[p] = rounded(sums[p]);
}

}  // namespace

void resize_bilinear(const RawImage& image, const PixelBox& box, std::uint32_t height,
                     std::uint32_t width, std::span<std::uint8_t> out) {
  ES_CHECK(box.height > 0 && box.width > 0 && height > 0 && width > 0);
  ES_CHECK(box.y <= image.height - box.height && box.x <= image.width - box.width);
  ES_CHECK(out.size() == std::size_t{height} * width * kChannels);
  const Taps columns = make_taps(box.width, width);
  const Taps rows = make_taps(box.height, height);
  const std::size_t out_row = std::size_t{width} * kChannels;
  std::vector<std::uint8_t> narrow(box.height * out_row);
  for (std::uint32_t y = 0; y < box.height; ++y) {
    const std::size_t at = (std::size_t{box.y} + y) * image.width + box.x;
    resize_row(&image.pixels[at * kChannels], columns, &narrow[y * out_row]);
  }
  std::vector<std::int32_t> sums(out_row);
  for (std::uint32_t y = 0; y < height; ++y)
    mix_rows(narrow.data(), rows, rows.ranges[y], sums, out.subspan(y * out_row, out_row));
}

}  // namespace es::store
