#include "store/dataset/images/synthetic_images.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "proto/base/digest.h"

using namespace es;
using namespace es::store;

namespace {

using Pixels = std::vector<std::uint8_t>;

Pixels image(const SyntheticImages& images, Half half, std::uint64_t index) {
  Pixels pixels(images.shape().pixel_bytes());
  images.draw(half, index, pixels);
  return pixels;
}

// The digest of the first `count` images in order.
std::string digest(const SyntheticImages& images, Half half, std::uint64_t count) {
  Pixels all;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Pixels one = image(images, half, i);
    all.insert(all.end(), one.begin(), one.end());
  }
  return digest_of(std::as_bytes(std::span(all))).hex();
}

// The class whose mean training image is nearest to the pixels.
std::size_t nearest_class(const std::vector<std::vector<double>>& means,
                          std::span<const std::uint8_t> pixels) {
  std::vector<double> distances;
  for (const std::vector<double>& mean : means) {
    double distance = 0;
    for (std::size_t p = 0; p < pixels.size(); ++p)
      distance += (mean[p] - pixels[p]) * (mean[p] - pixels[p]);
    distances.push_back(distance);
  }
  return static_cast<std::size_t>(std::min_element(distances.begin(), distances.end()) -
                                  distances.begin());
}

}  // namespace

TEST_SUITE("store/dataset/images/synthetic_images") {
  TEST_CASE("labels repeat in a cycle") {
    const SyntheticImages images({7, 9, 3}, 5);
    for (std::uint64_t i = 0; i < 52; ++i) CHECK(images.label(i) == int(i % 5));
  }

  TEST_CASE("its bytes never change") {
    const SyntheticImages images({9, 13, 3}, 7);
    CHECK(digest(images, Half::kTrain, 40) == "26a1315cc019615efa0bbb710a8be134");
    CHECK(digest(images, Half::kEval, 20) == "b329b877c2436683ac88ad8e657f08b6");
  }

  TEST_CASE("training and evaluation images differ") {
    const SyntheticImages images({8, 8, 1}, 2);
    CHECK(image(images, Half::kTrain, 0) != image(images, Half::kEval, 0));
  }

  TEST_CASE(
      "the mean images of the training half also distinguish the classes of the evaluation half") {
    const SyntheticImages images({16, 16, 1}, 10);
    std::vector<std::vector<double>> means(10, std::vector<double>(256));
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const Pixels pixels = image(images, Half::kTrain, i);
      for (std::size_t p = 0; p < 256; ++p) means[i % 10][p] += pixels[p] / 100.0;
    }
    int right = 0;
    for (std::uint64_t i = 0; i < 300; ++i)
      right += nearest_class(means, image(images, Half::kEval, i)) == i % 10;
    CHECK(right >= 240);
  }
}
