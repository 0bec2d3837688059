#include "store/dataset/epoch_sampler.h"

#include <doctest/doctest.h>

#include <random>
#include <set>
#include <vector>

#include "tests/support/seed.h"

using namespace es;
using namespace es::store;

namespace {

EpochSampler make(std::uint64_t samples, std::uint32_t max_p, std::uint32_t batch_size,
                  std::uint64_t seed = 1) {
  Result<EpochSampler> sampler = EpochSampler::create(
      {.samples = samples, .max_p = max_p, .batch_size = batch_size, .seed = seed});
  REQUIRE(sampler.ok());
  return *sampler;
}

std::vector<std::uint64_t> permutation(const EpochSampler& sampler, std::uint64_t epoch) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t p = 0; p < sampler.samples(); ++p) all.push_back(sampler.permuted(epoch, p));
  return all;
}

// All samples that all ranks read in one epoch.
std::vector<std::uint64_t> epoch_samples(const EpochSampler& sampler, std::uint64_t epoch) {
  std::vector<std::uint64_t> all;
  for (std::uint64_t step = 0; step < sampler.steps_per_epoch(); ++step)
    for (VirtualRank rank = 0; rank < sampler.max_p(); ++rank)
      for (std::uint32_t i = 0; i < sampler.batch_size(); ++i)
        all.push_back(sampler.sample({epoch, step}, rank, i));
  return all;
}

}  // namespace

TEST_SUITE("store/dataset/epoch_sampler") {
  TEST_CASE("every epoch is a permutation, for every number of samples up to 600") {
    for (std::uint64_t samples = 1; samples <= 600; ++samples) {
      const EpochSampler sampler = make(samples, 1, 1, samples);
      const auto order = permutation(sampler, samples % 3);
      const std::set<std::uint64_t> distinct(order.begin(), order.end());
      REQUIRE(distinct.size() == samples);
      REQUIRE(*distinct.rbegin() == samples - 1);
    }
  }

  TEST_CASE("the ranks read each sample of an epoch once, except the dropped rest") {
    std::mt19937_64 random(test::seed("epoch sampler cuts"));
    for (int round = 0; round < 50; ++round) {
      const auto max_p = static_cast<std::uint32_t>(1 + random() % 9);
      const auto batch_size = static_cast<std::uint32_t>(1 + random() % 12);
      const std::uint64_t samples = max_p * batch_size + random() % 2000;
      const EpochSampler sampler = make(samples, max_p, batch_size, random());
      const auto all = epoch_samples(sampler, random() % 100);
      const std::set<std::uint64_t> distinct(all.begin(), all.end());
      REQUIRE(distinct.size() == all.size());
      REQUIRE(*distinct.rbegin() < samples);
      REQUIRE(samples - all.size() < std::uint64_t{max_p} * batch_size);
    }
  }

  TEST_CASE("a global batch depends on its size alone, not on its division among ranks") {
    const EpochSampler four = make(1000, 4, 6);
    const EpochSampler eight = make(1000, 8, 3);
    CHECK(epoch_samples(four, 5) == epoch_samples(eight, 5));
  }

  TEST_CASE("rank r takes the r-th contiguous batch of its global batch") {
    const EpochSampler sampler = make(100, 3, 4);
    CHECK(sampler.sample({7, 2}, 1, 3) == sampler.permuted(7, 2 * 12 + 1 * 4 + 3));
  }

  TEST_CASE("epochs and seeds give different orders, equal ones give the same order") {
    const EpochSampler sampler = make(500, 1, 1, 42);
    CHECK(permutation(sampler, 0) != permutation(sampler, 1));
    CHECK(permutation(sampler, 0) != permutation(make(500, 1, 1, 43), 0));
    CHECK(permutation(sampler, 3) == permutation(make(500, 1, 1, 42), 3));
  }

  TEST_CASE("the order never changes") {
    const EpochSampler sampler = make(60'000, 4, 32, 1);
    std::vector<std::uint64_t> first;
    for (std::uint32_t i = 0; i < 6; ++i) first.push_back(sampler.sample({0, 0}, 0, i));
    CHECK(first == std::vector<std::uint64_t>{12832, 41647, 24984, 23911, 21975, 3952});
  }

  // Over many epochs each sample must be at each position equally often: chi-square with 99 degrees
  // of freedom exceeds 170 with a probability of 1e-5.
  TEST_CASE("each sample is at each position about equally often") {
    const EpochSampler sampler = make(100, 1, 1, 9);
    constexpr int kEpochs = 10'000;
    for (const std::uint64_t position : {0, 1, 37, 63, 64, 99}) {
      std::vector<double> hits(100);
      for (int epoch = 0; epoch < kEpochs; ++epoch) hits[sampler.permuted(epoch, position)] += 1;
      double chi_square = 0;
      for (const double h : hits) chi_square += (h - 100) * (h - 100) / 100;
      CHECK(chi_square < 170);
    }
  }

  TEST_CASE("neighbours in the order are not neighbours in the data") {
    const EpochSampler sampler = make(10'000, 1, 1, 5);
    const auto order = permutation(sampler, 0);
    int adjacent = 0;
    for (std::size_t p = 1; p < order.size(); ++p)
      adjacent += order[p] == order[p - 1] + 1 || order[p] + 1 == order[p - 1];
    CHECK(adjacent < 15);  // The expected number is 2.
  }

  TEST_CASE("the cursor counts steps through epochs") {
    const EpochSampler sampler = make(100, 3, 4);
    CHECK(sampler.steps_per_epoch() == 8);
    CHECK(sampler.cursor(0) == DataCursor{0, 0});
    CHECK(sampler.cursor(7) == DataCursor{0, 7});
    CHECK(sampler.cursor(8) == DataCursor{1, 0});
    CHECK(sampler.cursor(20) == DataCursor{2, 4});
  }

  TEST_CASE("the losses of an iteration use one global batch, and an epoch ends by iterations") {
    const EpochSampler sampler =
        *EpochSampler::create({.samples = 100,
                               .max_p = 3,
                               .batch_size = 4,
                               .turns = *LossTurns::create(std::vector<std::uint32_t>{1, 3})});
    CHECK(sampler.steps_per_epoch() == 8);
    CHECK(sampler.steps_of_epochs(1) == 8 + 3);
    CHECK(sampler.steps_of_epochs(3) == 24 + 8);
    CHECK(sampler.cursor(0) == DataCursor{0, 0});
    CHECK(sampler.cursor(1) == DataCursor{0, 0});
    CHECK(sampler.cursor(2) == DataCursor{0, 1});
    CHECK(sampler.cursor(10) == DataCursor{0, 7});
    CHECK(sampler.cursor(11) == DataCursor{1, 0});
    CHECK(sampler.cursor(13) == DataCursor{1, 1});
  }

  TEST_CASE("billions of samples need no memory") {
    const std::uint64_t samples = (std::uint64_t{1} << 40) + 12345;
    const EpochSampler sampler = make(samples, 1024, 256);
    std::set<std::uint64_t> seen;
    for (std::uint64_t p = 0; p < 1000; ++p) seen.insert(sampler.permuted(0, samples - 1 - p));
    CHECK(seen.size() == 1000);
    CHECK(*seen.rbegin() < samples);
  }

  TEST_CASE("fewer samples than one global batch are refused") {
    const auto sampler = EpochSampler::create({.samples = 127, .max_p = 4, .batch_size = 32});
    REQUIRE_FALSE(sampler.ok());
    CHECK(sampler.error().kind == ErrorKind::kUsage);
    CHECK(sampler.error().message.find("127") != std::string::npos);
    CHECK(sampler.error().message.find("4 * 32 = 128") != std::string::npos);
    CHECK_FALSE(EpochSampler::create({.samples = 1, .max_p = 0, .batch_size = 1}).ok());
    CHECK_FALSE(EpochSampler::create({.samples = 1, .max_p = 1, .batch_size = 0}).ok());
  }
}
