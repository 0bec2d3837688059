#include "store/dataset/images/crop.h"

#include <algorithm>
#include <cmath>

#include "store/dataset/stream_key.h"
#include "store/fixed_math.h"

namespace es::store {
namespace {

constexpr int kTries = 10;
constexpr double kAreaMin = 0.08;
constexpr double kRatioMax = 4.0 / 3.0, kRatioMin = 3.0 / 4.0;
constexpr double kLogRatioMax = 0.28768207245178090;  // log(4/3)

// Rounds to the nearest whole number, at least 1 and at most `limit`.
std::uint32_t side(double length, std::uint32_t limit) {
  const auto whole = static_cast<std::uint32_t>(std::min(length + 0.5, 4e9));
  return std::clamp(whole, std::uint32_t{1}, limit);
}

PixelBox central(std::uint32_t height, std::uint32_t width, std::uint32_t box_height,
                 std::uint32_t box_width) {
  return {(height - box_height) / 2, (width - box_width) / 2, box_height, box_width};
}

// The largest central box with the given ratio of width to height.
PixelBox central_of_ratio(std::uint32_t height, std::uint32_t width, double ratio) {
  if (width > height * ratio) return central(height, width, height, side(height * ratio, width));
  return central(height, width, side(width / ratio, height), width);
}

}  // namespace

PixelBox draw_crop(std::uint32_t height, std::uint32_t width, PhiloxKey key, std::uint64_t sample) {
  const double area = static_cast<double>(height) * width;
  for (std::uint32_t attempt = 0; attempt < kTries; ++attempt) {
    const auto words = philox4x32_10(index_counter(sample, attempt), key);
    const double target = area * (kAreaMin + (1.0 - kAreaMin) * unit(words[0]));
    const double ratio = fixed_exp((2.0 * unit(words[1]) - 1.0) * kLogRatioMax);
    const double box_width = std::floor(std::sqrt(target * ratio) + 0.5);
    const double box_height = std::floor(std::sqrt(target / ratio) + 0.5);
    // The drawn box does not fit into the image, so the next attempt draws new numbers.
    if (box_width < 1 || box_width > width || box_height < 1 || box_height > height) continue;
    const auto h = static_cast<std::uint32_t>(box_height);
    const auto w = static_cast<std::uint32_t>(box_width);
    return {below(height - h + 1, words[2]), below(width - w + 1, words[3]), h, w};
  }
  // No attempt has fitted: the largest central box with an allowed ratio is used.
  const double ratio = static_cast<double>(width) / height;
  return central_of_ratio(height, width, std::clamp(ratio, kRatioMin, kRatioMax));
}

PixelBox central_crop(std::uint32_t height, std::uint32_t width, const ImageShape& shape,
                      bool zoom) {
  const PixelBox box =
      central_of_ratio(height, width, static_cast<double>(shape.width) / shape.height);
  if (!zoom) return box;
  const auto shrunk = [](std::uint32_t length) { return std::max(1u, (length * 7 + 4) / 8); };
  return central(height, width, shrunk(box.height), shrunk(box.width));
}

}  // namespace es::store
