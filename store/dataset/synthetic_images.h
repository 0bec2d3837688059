#pragma once
// Images of any shape that need no file and that a model can really learn to tell apart.
//
// Each class has a template of 4 x 4 coarse cells per channel with random brightness. An image is
// its class's template, shifted cyclically by up to an eighth of each side, mixed with noise:
//   pixel = (96 * template + 160 * noise) / 256     (integers, rounded down)
// Image i of a set has label i mod classes. Everything is drawn by Philox from (set, image, pixel),
// so image i is the same for any count and on any machine; there is no seed: one shape and number
// of classes is one dataset, as it is with a real one.
#include "proto/base/result.h"
#include "store/dataset/image_dataset.h"

namespace es::store {

// Both halves together may hold at most this much: they are kept in memory by every worker.
inline constexpr std::uint64_t kSyntheticBytesMax = std::uint64_t{4} << 30;

struct SyntheticOptions {
  ImageShape shape;
  std::uint32_t classes = 10;
  std::uint64_t train_count = 0;
  std::uint64_t eval_count = 0;
};

// Error (usage): a zero size, or a set larger than kSyntheticBytesMax.
Result<ImageDataset> make_synthetic_images(const SyntheticOptions& options);

}  // namespace es::store
