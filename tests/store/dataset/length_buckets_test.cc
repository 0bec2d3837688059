#include "store/dataset/length_buckets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "store/dataset/epoch_sampler.h"
#include "tests/store/dataset/arrays/array_files.h"
#include "tests/store/temp_directory.h"
#include "tests/support/seed.h"

namespace es::store {
namespace {

using test::npy_data;
using test::npy_file;
using test::npy_literal;

EpochSampler sampler_of(const std::vector<std::uint8_t>& numbers, const BucketLadders& ladders,
                        std::uint32_t max_p, std::uint32_t batch_size, std::uint64_t seed = 1) {
  auto buckets = LengthBuckets::create(numbers, ladders, std::uint64_t{max_p} * batch_size);
  REQUIRE_MESSAGE(buckets.ok(), buckets.error().message);
  return *EpochSampler::create(
      {.samples = numbers.size(),
       .max_p = max_p,
       .batch_size = batch_size,
       .seed = seed,
       .weights = nullptr,
       .groups = nullptr,
       .buckets = std::make_shared<const LengthBuckets>(*std::move(buckets))});
}

// A random job whose buckets are one ladder, or several.
struct RandomBuckets {
  std::vector<std::uint8_t> numbers;
  BucketLadders ladders;
  std::uint32_t max_p, batch_size;

  explicit RandomBuckets(std::mt19937_64& random)
      : max_p(static_cast<std::uint32_t>(1 + random() % 5)),
        batch_size(static_cast<std::uint32_t>(1 + random() % 6)) {
    const auto buckets = static_cast<std::uint32_t>(1 + random() % kLengthBucketsMax);
    for (std::uint32_t b = 0; b < buckets; ++b) {
      ladders.push_back(b > 0 && random() % 4 != 0);
      // The first bucket of a ladder alone fills a global batch.
      const std::uint64_t least = ladders.back() ? 1 : max_p * batch_size;
      numbers.insert(numbers.end(), least + random() % 60, static_cast<std::uint8_t>(b));
    }
    std::ranges::shuffle(numbers, random);
  }
  EpochSampler sampler(std::uint64_t seed) const {
    return sampler_of(numbers, ladders, max_p, batch_size, seed);
  }
  std::uint32_t ladder_of(std::uint32_t bucket) const {
    return static_cast<std::uint32_t>(std::count(ladders.begin(), ladders.begin() + bucket + 1, 0));
  }
};

std::vector<std::uint64_t> batch_of(const EpochSampler& sampler, DataCursor at, VirtualRank rank) {
  std::vector<std::uint64_t> samples(sampler.batch_size());
  sampler.batch(at, rank, samples);
  return samples;
}

}  // namespace

TEST_SUITE("store/dataset/length_buckets") {
  TEST_CASE("an epoch uses no sample twice, and leaves out less than a global batch of a ladder") {
    std::mt19937_64 random(test::seed("length buckets of an epoch"));
    for (int round = 0; round < 60; ++round) {
      const RandomBuckets job(random);
      const EpochSampler sampler = job.sampler(random());
      const std::uint64_t epoch = random() % 100;
      std::set<std::uint64_t> used;
      for (std::uint64_t i = 0; i < sampler.positions(); ++i)
        REQUIRE(used.insert(sampler.permuted(epoch, i)).second);
      CHECK(*used.rbegin() < job.numbers.size());
      std::map<std::uint32_t, std::uint64_t> left_out;
      for (std::uint64_t sample = 0; sample < job.numbers.size(); ++sample)
        left_out[job.ladder_of(job.numbers[sample])] += !used.contains(sample);
      for (const auto& [ladder, samples] : left_out)
        CHECK(samples < std::uint64_t{job.max_p} * job.batch_size);
    }
  }

  TEST_CASE("a mini-batch has the smallest bucket that holds all of its samples") {
    std::mt19937_64 random(test::seed("length buckets of mini-batches"));
    for (int round = 0; round < 60; ++round) {
      const RandomBuckets job(random);
      const EpochSampler sampler = job.sampler(random());
      for (std::uint64_t step = 0; step < sampler.steps_per_epoch(); ++step)
        for (VirtualRank rank = 0; rank < job.max_p; ++rank) {
          const DataCursor at{round % 3U, step};
          std::set<std::uint32_t> found, ladders;
          for (const std::uint64_t sample : batch_of(sampler, at, rank)) {
            found.insert(job.numbers[sample]);
            ladders.insert(job.ladder_of(job.numbers[sample]));
          }
          REQUIRE(sampler.bucket(at, rank) == *found.begin());
          REQUIRE(ladders.size() == 1);
        }
    }
  }

  TEST_CASE("most global batches have samples of one bucket") {
    std::mt19937_64 random(test::seed("length buckets of global batches"));
    const RandomBuckets job(random);
    const EpochSampler sampler = job.sampler(random());
    std::uint64_t mixed = 0;
    for (std::uint64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      std::set<std::uint32_t> found;
      for (std::uint64_t i = 0; i < job.max_p * job.batch_size; ++i)
        found.insert(job.numbers[sampler.permuted(7, step * job.max_p * job.batch_size + i)]);
      mixed += found.size() > 1;
    }
    CHECK(mixed < job.ladders.size());
  }

  TEST_CASE("one sample, a mini-batch and a whole epoch agree, and a division of ranks too") {
    std::mt19937_64 random(test::seed("length buckets of one sample"));
    const RandomBuckets job(random);
    const std::uint64_t seed = random();
    const EpochSampler sampler = job.sampler(seed);
    const EpochSampler one =
        sampler_of(job.numbers, job.ladders, 1, job.max_p * job.batch_size, seed);
    for (std::uint64_t step = 0; step < sampler.steps_per_epoch(); ++step) {
      const std::vector<std::uint64_t> whole = batch_of(one, {3, step}, 0);
      for (VirtualRank rank = 0; rank < job.max_p; ++rank) {
        const std::vector<std::uint64_t> batch = batch_of(sampler, {3, step}, rank);
        for (std::uint32_t i = 0; i < job.batch_size; ++i) {
          CHECK(batch[i] == whole[rank * job.batch_size + i]);
          CHECK(batch[i] == sampler.sample({3, step}, rank, i));
        }
      }
    }
  }

  // Each sample is left out of an epoch with the same probability, 7 of 27. The 27 counts of 4,000
  // epochs have the mean 1,037 and the deviation 28.
  TEST_CASE("every sample is left out equally often") {
    std::vector<std::uint8_t> numbers(27, 0);
    std::fill(numbers.begin() + 5, numbers.end(), 1);
    const EpochSampler sampler = sampler_of(numbers, {false, true}, 2, 5, 9);
    std::vector<int> left_out(27, 0);
    for (std::uint64_t epoch = 0; epoch < 4000; ++epoch) {
      std::set<std::uint64_t> used;
      for (std::uint64_t i = 0; i < sampler.positions(); ++i)
        used.insert(sampler.permuted(epoch, i));
      for (std::uint64_t sample = 0; sample < 27; ++sample)
        left_out[sample] += !used.contains(sample);
    }
    for (const int count : left_out) {
      CHECK(count > 1037 - 5 * 28);
      CHECK(count < 1037 + 5 * 28);
    }
  }

  TEST_CASE("epochs and seeds give different orders, and the order never changes") {
    std::vector<std::uint8_t> numbers;
    for (int i = 0; i < 100; ++i) numbers.push_back(static_cast<std::uint8_t>(i % 3));
    const auto first = [&](std::uint64_t seed, std::uint64_t epoch) {
      return batch_of(sampler_of(numbers, {false, true, true}, 2, 4, seed), {epoch, 5}, 1);
    };
    CHECK(first(1, 0) != first(1, 1));
    CHECK(first(1, 0) != first(2, 0));
    // As python/tests/sample_order.py computes them.
    CHECK(first(1, 0) == std::vector<std::uint64_t>{96, 81, 90, 18});
    CHECK(first(1, 2) == std::vector<std::uint64_t>{56, 83, 14, 59});
    const EpochSampler sampler = sampler_of(numbers, {false, true, true}, 2, 4);
    CHECK(batch_of(sampler, {0, 3}, 1) == std::vector<std::uint64_t>{24, 6, 70, 85});
    CHECK(sampler.bucket({0, 3}, 1) == 0);
  }

  TEST_CASE("an evaluation has its samples in their order, and no mini-batch of two ladders") {
    const std::vector<std::uint8_t> numbers = {1, 2, 2, 0, 3, 2, 1};
    using Batches = std::vector<EvaluatedSamples>;
    CHECK(evaluation_batches(numbers, {false, true, true, false}, 7, 3) ==
          Batches{{0, 3, 1}, {3, 1, 0}, {4, 1, 3}, {5, 2, 1}});
    CHECK(evaluation_batches(numbers, {false, true, true, true}, 7, 4) ==
          Batches{{0, 4, 0}, {4, 3, 1}});
    CHECK(evaluation_batches({}, {false}, 5, 2) == Batches{{0, 2, 0}, {2, 2, 0}, {4, 1, 0}});
    CHECK(evaluation_batches({}, {false}, 0, 2).empty());
  }

  TEST_CASE("a bucket without samples, and a ladder that fills no global batch, are refused") {
    const std::vector<std::uint8_t> numbers = {0, 0, 0, 0, 2, 2, 2};
    const auto error = [&](const BucketLadders& ladders, std::uint64_t batch) {
      const auto made = LengthBuckets::create(numbers, ladders, batch);
      return made ? std::string() : made.error().message;
    };
    CHECK(error({false, true, true}, 4) ==
          "length bucket 1 has no training sample: allowed are buckets with samples");
    const std::vector<std::uint8_t> two = {0, 0, 0, 0, 1, 1, 1};
    const auto made = LengthBuckets::create(two, {false, false}, 4);
    REQUIRE_FALSE(made.ok());
    CHECK(made.error().message ==
          "training samples of length bucket 1 and those that it holds = 3: allowed is at least "
          "max_p * batch_size = 4 (one global batch)");
    CHECK(LengthBuckets::create(two, {false, true}, 4).ok());
  }

  TEST_CASE("a file has one byte for each sample, the number of a bucket") {
    const test::TempDirectory directory;
    const std::filesystem::path file = directory / "train.npy";
    const auto read = [&](const char* type, const std::vector<std::size_t>& shape,
                          const std::vector<std::uint8_t>& bytes) {
      test::write_file(file, npy_file(npy_literal(type, shape), npy_data(bytes)));
      return read_bucket_numbers(file, 3, 2, "training samples");
    };
    const std::vector<std::uint8_t> good = {1, 0, 1};
    CHECK(*read("|u1", {3}, good) == good);
    CHECK(read("|u1", {3}, {1, 2, 1}).error().message ==
          file.string() +
              ": element 1 = 2: allowed is 0 to 1, the numbers of the programs of the model file");
    CHECK(read("|u1", {2}, {1, 0}).error().message ==
          file.string() + ": number of elements = 2: allowed is 3, the number of training samples");
    for (const auto& other : {read("|u1", {3, 1}, good), read("<i4", {1}, {1, 0, 0, 0})})
      CHECK(other.error().message.find("one axis of the type u1") != std::string::npos);
  }
}

}  // namespace es::store
