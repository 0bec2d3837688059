#include "store/dataset/sources.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cstring>
#include <set>
#include <thread>
#include <tuple>

#include "proto/base/digest.h"

using namespace es;
using namespace es::store;

namespace {

struct Batch {
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  bool operator==(const Batch&) const = default;
};

struct Augmentation {
  std::uint32_t crop_padding = 0;
  bool flip = false;
  std::uint64_t seed = 0;
};

ImageSet set_of(const SyntheticImages& images, Half half, std::uint64_t count) {
  ImageSet set;
  const std::size_t size = images.shape().pixel_bytes();
  set.pixels.resize(count * size);
  for (std::uint64_t i = 0; i < count; ++i) {
    images.draw(half, i, std::span(set.pixels).subspan(i * size, size));
    set.labels.push_back(images.label(i));
  }
  return set;
}

ImageDataset dataset_of(ImageShape shape, std::uint64_t count) {
  const SyntheticImages images(shape, 10);
  return {shape, 10, set_of(images, Half::kTrain, count), set_of(images, Half::kEval, count)};
}

std::shared_ptr<const SampleSource> source_of(const ImageDataset& dataset,
                                              const Augmentation& augmentation = {},
                                              const std::string& normalise = "half") {
  DataSpec spec;
  spec.normalise = normalise;
  spec.crop_padding = augmentation.crop_padding;
  spec.flip = augmentation.flip;
  return *memory_source(dataset, spec, augmentation.seed);
}

EpochSampler sampler_of(const ImageDataset& dataset, std::uint32_t max_p, std::uint32_t batch) {
  return *EpochSampler::create(
      {.samples = dataset.train.count(), .max_p = max_p, .batch_size = batch, .seed = 3});
}

// A block of words, as images and labels.
Batch batch_from(const std::vector<float>& words, std::size_t batch) {
  Batch result{{words.begin(), words.end() - batch}, {}};
  for (std::size_t i = words.size() - batch; i < words.size(); ++i)
    result.labels.push_back(std::bit_cast<std::int32_t>(words[i]));
  return result;
}

Batch batch_of(const ImageDataset& dataset, const EpochSampler& sampler,
               const Augmentation& augmentation, DataCursor at, VirtualRank rank) {
  std::vector<float> words(sampler.batch_size() * (dataset.shape.pixel_bytes() + 1));
  REQUIRE(fill_batch(*source_of(dataset, augmentation), sampler, at, rank, words).ok());
  return batch_from(words, sampler.batch_size());
}

float normalised(int pixel) {
  return (static_cast<float>(pixel) / 255.0f - 0.5f) / 0.5f;
}

// The image padded by `padding`, cut at (dy, dx) and possibly mirrored: the definition as simple
// loops.
std::vector<float> transformed(const ImageDataset& dataset, std::uint64_t sample, int padding,
                               int dy, int dx, bool mirrored) {
  const ImageShape& shape = dataset.shape;
  const auto raw = dataset.image(dataset.train, sample);
  const auto height = static_cast<int>(shape.height), width = static_cast<int>(shape.width);
  std::vector<float> out;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (std::uint32_t c = 0; c < shape.channels; ++c) {
        const int row = y + dy - padding;
        const int column = (mirrored ? width - 1 - x : x) + dx - padding;
        const bool inside = row >= 0 && row < height && column >= 0 && column < width;
        out.push_back(normalised(inside ? raw[(row * width + column) * shape.channels + c] : 0));
      }
  return out;
}

}  // namespace

TEST_SUITE("store/dataset/images/image_source") {
  TEST_CASE("pixels 0 and 255 become -1 and 1") {
    ImageDataset dataset{{1, 2, 1}, 2, {{0, 255}, {1}}, {{255, 51}, {0}}};
    const EpochSampler sampler = sampler_of(dataset, 1, 1);
    const Batch batch = batch_of(dataset, sampler, {}, {0, 0}, 0);
    CHECK(batch.images == std::vector<float>{-1.0f, 1.0f});
    CHECK(batch.labels == std::vector<std::int32_t>{1});
  }

  TEST_CASE("without augmentation a batch is the normalised images of its samples") {
    const ImageDataset dataset = dataset_of({5, 4, 3}, 30);
    const EpochSampler sampler = sampler_of(dataset, 2, 3);
    const Batch batch = batch_of(dataset, sampler, {}, {2, 4}, 1);
    for (std::uint32_t i = 0; i < 3; ++i) {
      const std::uint64_t sample = sampler.sample({2, 4}, 1, i);
      CHECK(batch.labels[i] == dataset.train.labels[sample]);
      const std::vector<float> image(batch.images.begin() + i * 60,
                                     batch.images.begin() + (i + 1) * 60);
      CHECK(image == transformed(dataset, sample, 0, 0, 0, false));
    }
  }

  TEST_CASE("a training image is a crop of its padded self, mirrored or not, in all combinations") {
    const ImageDataset dataset = dataset_of({6, 5, 2}, 400);
    const EpochSampler sampler = sampler_of(dataset, 4, 100);
    const Augmentation augmentation{.crop_padding = 2, .flip = true, .seed = 11};
    std::set<std::tuple<int, int, bool>> seen;
    for (VirtualRank rank = 0; rank < 4; ++rank) {
      const Batch batch = batch_of(dataset, sampler, augmentation, {0, 0}, rank);
      for (std::uint32_t i = 0; i < 100; ++i) {
        const std::vector<float> image(batch.images.begin() + i * 60,
                                       batch.images.begin() + (i + 1) * 60);
        int matches = 0;
        for (int way = 0; way < 50; ++way) {
          const int dy = way / 10, dx = way / 2 % 5;
          const bool mirrored = way % 2 == 1;
          const std::uint64_t sample = sampler.sample({0, 0}, rank, i);
          if (image != transformed(dataset, sample, 2, dy, dx, mirrored)) continue;
          seen.insert({dy, dx, mirrored});
          ++matches;
        }
        REQUIRE(matches == 1);
      }
    }
    CHECK(seen.size() == 50);
  }

  TEST_CASE("the augmentation depends on seed, epoch and sample, not on the rank that loads it") {
    const ImageDataset dataset = dataset_of({8, 8, 1}, 64);
    const EpochSampler one = sampler_of(dataset, 1, 64);
    const EpochSampler four = sampler_of(dataset, 4, 16);
    const Augmentation augmentation{.crop_padding = 3, .flip = true, .seed = 5};
    const Batch whole = batch_of(dataset, one, augmentation, {6, 0}, 0);
    Batch parts;
    for (VirtualRank rank = 0; rank < 4; ++rank) {
      const Batch part = batch_of(dataset, four, augmentation, {6, 0}, rank);
      parts.images.insert(parts.images.end(), part.images.begin(), part.images.end());
      parts.labels.insert(parts.labels.end(), part.labels.begin(), part.labels.end());
    }
    CHECK(parts == whole);
  }

  TEST_CASE("another epoch and another seed augment a sample differently") {
    ImageDataset dataset = dataset_of({16, 16, 1}, 1);
    const EpochSampler sampler = sampler_of(dataset, 1, 1);
    std::set<std::vector<float>> seen;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch)
      for (const std::uint64_t seed : {1, 2})
        seen.insert(batch_of(dataset, sampler, {8, true, seed}, {epoch, 0}, 0).images);
    CHECK(seen.size() > 30);
  }

  TEST_CASE("padding wider than the image is allowed") {
    const ImageDataset dataset = dataset_of({2, 2, 1}, 50);
    const EpochSampler sampler = sampler_of(dataset, 1, 50);
    const Batch batch = batch_of(dataset, sampler, {.crop_padding = 64, .seed = 1}, {0, 0}, 0);
    for (const float value : batch.images) CHECK((value >= -1.0f && value <= 1.0f));
  }

  TEST_CASE("threads that fill batches at the same time get the samples that one thread gets") {
    const ImageDataset dataset = dataset_of({28, 28, 1}, 1024);
    const EpochSampler sampler = sampler_of(dataset, 4, 32);
    const Augmentation augmentation{.crop_padding = 2, .flip = true, .seed = 1};
    std::vector<Batch> together(4);
    std::vector<std::thread> threads;
    for (VirtualRank rank = 0; rank < 4; ++rank)
      threads.emplace_back([&, rank] {
        together[rank] = batch_of(dataset, sampler, augmentation, {1, 3}, rank);
      });
    for (std::thread& thread : threads) thread.join();
    for (VirtualRank rank = 0; rank < 4; ++rank)
      CHECK(together[rank] == batch_of(dataset, sampler, augmentation, {1, 3}, rank));
  }

  TEST_CASE("the bits of a batch never change") {
    const ImageDataset dataset = dataset_of({28, 28, 1}, 256);
    const EpochSampler sampler = sampler_of(dataset, 4, 16);
    const Batch batch =
        batch_of(dataset, sampler, {.crop_padding = 2, .flip = true, .seed = 7}, {2, 1}, 3);
    CHECK(digest_of(std::as_bytes(std::span(batch.images))).hex() ==
          "619f3b7ecd5775d8ea27ef086615264c");
  }

  TEST_CASE(
      "evaluation images are in order and only normalised, and the last one fills the batch up") {
    const ImageDataset dataset = dataset_of({3, 3, 1}, 20);
    const auto source = source_of(dataset, {.crop_padding = 2, .flip = true, .seed = 4});
    std::vector<float> words(7 * 10);
    REQUIRE(source->fill_eval(15, 5, 7, words).ok());
    const Batch batch = batch_from(words, 7);
    for (std::uint64_t i = 0; i < 7; ++i) {
      const std::uint64_t index = std::min<std::uint64_t>(15 + i, 19);
      CHECK(batch.labels[i] == dataset.eval.labels[index]);
      CHECK(source->true_label(index) == dataset.eval.labels[index]);
      for (std::size_t p = 0; p < 9; ++p)
        CHECK(batch.images[i * 9 + p] == normalised(dataset.image(dataset.eval, index)[p]));
    }
  }

  TEST_CASE("imagenet normalises each of three channels by its mean and deviation") {
    const ImageDataset dataset{{1, 1, 3}, 2, {{0, 128, 255}, {1}}, {{0, 0, 0}, {0}}};
    std::vector<float> words(4);
    REQUIRE(source_of(dataset, {}, "imagenet")
                ->fill_train(0, std::array<std::uint64_t, 1>{0}, words)
                .ok());
    CHECK(words[0] == (0.0f - 0.485f) / 0.229f);
    CHECK(words[1] == (128.0f / 255.0f - 0.456f) / 0.224f);
    CHECK(words[2] == (1.0f - 0.406f) / 0.225f);

    DataSpec spec;
    spec.normalise = "imagenet";
    const auto grey = memory_source(dataset_of({2, 2, 1}, 4), spec, 1);
    REQUIRE_FALSE(grey.ok());
    CHECK(grey.error().message.find("data.normalise") != std::string::npos);
  }

  TEST_CASE("synthetic images are the same samples, stored or computed") {
    DataSpec spec;
    spec.height = spec.width = 12;
    spec.channels = 3;
    spec.samples = 40;
    spec.eval_samples = 30;
    spec.crop_padding = 1;
    const auto computed = *synthetic_image_source(spec, 10, 9);
    const auto held = *memory_source(dataset_of({12, 12, 3}, 40), spec, 9);
    CHECK(computed->layout() == held->layout());
    CHECK(computed->eval_count() == 30);
    const std::array<std::uint64_t, 3> samples{39, 0, 17};
    std::vector<float> a(3 * 433), b(3 * 433);
    REQUIRE(computed->fill_train(2, samples, a).ok());
    REQUIRE(held->fill_train(2, samples, b).ok());
    CHECK(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
  }
}
