#include "store/dataset/synthetic_images.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "proto/base/digest.h"

using namespace es;
using namespace es::store;

namespace {

std::span<const std::byte> bytes_of(const ImageSet& set) {
  return std::as_bytes(std::span(set.pixels));
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

TEST_SUITE("store/dataset/synthetic_images") {
  TEST_CASE("has the shape, the counts and balanced labels that were asked for") {
    const auto dataset = make_synthetic_images(
        {.shape = {7, 9, 3}, .classes = 5, .train_count = 52, .eval_count = 11});
    REQUIRE(dataset.ok());
    CHECK(dataset->shape == ImageShape{7, 9, 3});
    CHECK(dataset->train.count() == 52);
    CHECK(dataset->eval.count() == 11);
    CHECK(dataset->train.pixels.size() == 52 * 7 * 9 * 3);
    for (std::uint64_t i = 0; i < 52; ++i) CHECK(dataset->train.labels[i] == int(i % 5));
  }

  TEST_CASE("its bytes never change") {
    const auto dataset = make_synthetic_images(
        {.shape = {9, 13, 3}, .classes = 7, .train_count = 40, .eval_count = 20});
    REQUIRE(dataset.ok());
    CHECK(digest_of(bytes_of(dataset->train)).hex() == "26a1315cc019615efa0bbb710a8be134");
    CHECK(digest_of(bytes_of(dataset->eval)).hex() == "b329b877c2436683ac88ad8e657f08b6");
  }

  TEST_CASE("an image is the same in a larger set") {
    const SyntheticOptions small{.shape = {8, 8, 1}, .classes = 10, .train_count = 20};
    SyntheticOptions large = small;
    large.train_count = 100;
    const auto a = make_synthetic_images(small);
    const auto b = make_synthetic_images(large);
    CHECK(std::equal(a->train.pixels.begin(), a->train.pixels.end(), b->train.pixels.begin()));
  }

  TEST_CASE("training and evaluation images differ") {
    const auto dataset = make_synthetic_images(
        {.shape = {8, 8, 1}, .classes = 2, .train_count = 2, .eval_count = 2});
    CHECK(dataset->train.pixels != dataset->eval.pixels);
  }

  TEST_CASE("what the mean images of the training half tell applies to the evaluation half") {
    const auto dataset = make_synthetic_images(
        {.shape = {16, 16, 1}, .classes = 10, .train_count = 1000, .eval_count = 300});
    std::vector<std::vector<double>> means(10, std::vector<double>(256));
    for (std::uint64_t i = 0; i < 1000; ++i)
      for (std::size_t p = 0; p < 256; ++p)
        means[i % 10][p] += dataset->image(dataset->train, i)[p] / 100.0;
    int right = 0;
    for (std::uint64_t i = 0; i < 300; ++i)
      right += nearest_class(means, dataset->image(dataset->eval, i)) == i % 10;
    CHECK(right >= 240);
  }

  TEST_CASE("a set that is too large or has a zero size is refused") {
    SyntheticOptions options{
        .shape = {4096, 4096, 64}, .classes = 10, .train_count = 1'000'000'000};
    const auto large = make_synthetic_images(options);
    REQUIRE_FALSE(large.ok());
    CHECK(large.error().message.find("at most 4 images") != std::string::npos);
    options = {.shape = {4, 0, 1}, .classes = 10, .train_count = 1};
    const auto flat = make_synthetic_images(options);
    REQUIRE_FALSE(flat.ok());
    CHECK(flat.error().message.find("data.width = 0") != std::string::npos);
  }
}
