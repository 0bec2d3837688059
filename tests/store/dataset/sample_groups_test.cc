#include "store/dataset/sample_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
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

EpochSampler grouped(const std::vector<std::int64_t>& keys, std::uint64_t seed,
                     std::uint32_t max_p = 1, std::uint32_t batch_size = 1) {
  return *EpochSampler::create({.samples = keys.size(),
                                .max_p = max_p,
                                .batch_size = batch_size,
                                .seed = seed,
                                .weights = nullptr,
                                .groups = std::make_shared<const SampleGroups>(keys)});
}

std::vector<std::uint64_t> epoch_of(const EpochSampler& sampler, std::uint64_t epoch) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t i = 0; i < sampler.positions(); ++i)
    samples.push_back(sampler.permuted(epoch, i));
  return samples;
}

std::vector<std::int64_t> random_keys(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> keys;
  for (int i = 0; i < 300; ++i) keys.push_back(static_cast<std::int64_t>(random() % 40) - 20);
  return keys;
}

}  // namespace

TEST_SUITE("store/dataset/sample_groups") {
  TEST_CASE("an epoch has one sample of each key") {
    const std::vector<std::int64_t> keys = random_keys(test::seed("sample groups"));
    const std::set<std::int64_t> known(keys.begin(), keys.end());
    const EpochSampler sampler = grouped(keys, 5);
    CHECK(sampler.positions() == known.size());
    CHECK(sampler.samples() == keys.size());
    CHECK(sampler.steps_per_epoch() == known.size());
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
      std::set<std::int64_t> seen;
      for (const std::uint64_t sample : epoch_of(sampler, epoch)) seen.insert(keys[sample]);
      CHECK(seen == known);
    }
  }

  TEST_CASE("a group of n samples uses each of them once in every turn of n epochs") {
    const std::vector<std::int64_t> keys = {7, 1, 7, 1, 7, 9, 1, 7};
    const EpochSampler sampler = grouped(keys, 11);
    for (const auto& [key, size] : std::map<std::int64_t, std::uint64_t>{{1, 3}, {7, 4}, {9, 1}}) {
      std::set<std::vector<std::uint64_t>> orders;
      for (std::uint64_t turn = 0; turn < 40; ++turn) {
        std::vector<std::uint64_t> order;
        for (std::uint64_t epoch = turn * size; epoch < (turn + 1) * size; ++epoch)
          for (const std::uint64_t sample : epoch_of(sampler, epoch))
            if (keys[sample] == key) order.push_back(sample);
        orders.insert(order);
        std::ranges::sort(order);
        REQUIRE(order.size() == size);
        CHECK(std::ranges::adjacent_find(order) == order.end());
      }
      // Turns have different orders: all 6 and most of 24 occur.
      CHECK(orders.size() >= (size == 1 ? 1 : size == 3 ? 6 : 15));
    }
  }

  TEST_CASE("an epoch has the same samples for any number of ranks") {
    const std::vector<std::int64_t> keys = random_keys(test::seed("groups of ranks"));
    const EpochSampler one = grouped(keys, 3), many = grouped(keys, 3, 3, 4);
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      const std::vector<std::uint64_t> all = epoch_of(one, epoch);
      for (std::uint64_t step = 0; step < many.steps_per_epoch(); ++step)
        for (VirtualRank rank = 0; rank < 3; ++rank) {
          std::vector<std::uint64_t> batch(4);
          many.batch({epoch, step}, rank, batch);
          for (std::uint32_t i = 0; i < 4; ++i) {
            CHECK(batch[i] == all[(step * 3 + rank) * 4 + i]);
            CHECK(batch[i] == many.sample({epoch, step}, rank, i));
          }
        }
    }
    CHECK(epoch_of(one, 0) != epoch_of(one, 1));
  }

  TEST_CASE("keys of one sample each are the permutation without groups, by their order") {
    const std::vector<std::int64_t> keys = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const EpochSampler plain =
        *EpochSampler::create({.samples = 10, .max_p = 1, .batch_size = 1, .seed = 8});
    for (std::uint64_t epoch = 0; epoch < 5; ++epoch)
      CHECK(epoch_of(grouped(keys, 8), epoch) == epoch_of(plain, epoch));
  }

  TEST_CASE("files of other shapes and types, and too few groups, are refused") {
    test::TempDirectory directory;
    const std::filesystem::path path = directory / "groups.npy";
    const auto read = [&](const char* type, const auto& keys, std::uint64_t samples) {
      test::write_file(path, npy_file(npy_literal(type, {keys.size()}), npy_data(keys)));
      return SampleGroups::read(path, samples);
    };
    CHECK(read("<i8", std::vector<std::int64_t>{-5, 1, -5}, 3)->groups() == 2);
    CHECK(read("|u1", std::vector<std::uint8_t>{5, 1, 5}, 3)->groups() == 2);
    CHECK(read("<i4", std::vector<std::int32_t>{1, 2}, 3).error().message ==
          path.string() + ": number of keys = 2: allowed is 3, the number of training samples");
    CHECK(read("<f8", std::vector<double>{1, 2}, 2).error().message.find("one axis of the type") !=
          std::string::npos);
    CHECK_FALSE(SampleGroups::read(directory / "none.npy", 2).ok());
    const std::vector<std::int64_t> keys = {1, 1, 2, 2};
    const auto few = EpochSampler::create({.samples = 4,
                                           .max_p = 1,
                                           .batch_size = 3,
                                           .seed = 1,
                                           .weights = nullptr,
                                           .groups = std::make_shared<const SampleGroups>(keys)});
    REQUIRE_FALSE(few.ok());
    CHECK(few.error().message.find("groups of training samples = 2: allowed is at least max_p") !=
          std::string::npos);
  }
}

}  // namespace es::store
