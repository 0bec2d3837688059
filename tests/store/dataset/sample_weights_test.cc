#include "store/dataset/sample_weights.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <map>

#include "store/dataset/epoch_sampler.h"
#include "store/dataset/stream_key.h"
#include "tests/store/dataset/arrays/array_files.h"
#include "tests/store/temp_directory.h"

namespace es::store {
namespace {

using test::npy_data;
using test::npy_file;
using test::npy_literal;

struct WeightFile {
  test::TempDirectory directory;

  template <class T>
  Result<SampleWeights> read(const char* type, const std::vector<T>& weights,
                             std::uint64_t samples) const {
    test::write_file(path(), npy_file(npy_literal(type, {weights.size()}), npy_data(weights)));
    return SampleWeights::read(path(), samples);
  }
  std::filesystem::path path() const { return directory / "weights.npy"; }
};

EpochSampler weighted(const SampleWeights& weights, std::uint64_t seed, std::uint32_t max_p = 1,
                      std::uint32_t batch_size = 1) {
  return *EpochSampler::create({.samples = weights.samples(),
                                .max_p = max_p,
                                .batch_size = batch_size,
                                .seed = seed,
                                .weights = std::make_shared<const SampleWeights>(weights)});
}

// The definition in the header, computed in another way.
std::uint64_t draw_of(const std::vector<std::uint64_t>& weights, std::uint64_t seed,
                      std::uint64_t epoch, std::uint64_t position) {
  const auto words =
      philox4x32_10(index_counter(position), stream_key(seed, DataStream::kWeightedDraw, epoch));
  std::uint64_t sum = 0;
  for (const std::uint64_t weight : weights) sum += weight;
  // floor(r * sum / 2^64) bit by bit: the product of the top bits of r, shifted down.
  std::uint64_t place = 0, rest = 0;  // rest: what is below 2^64, in units of 2^-64
  const std::uint64_t r = std::uint64_t{words[1]} << 32 | words[0];
  for (int bit = 63; bit >= 0; --bit) {
    const std::uint64_t carry = rest >> 63;
    place = 2 * place + carry;
    rest *= 2;
    if ((r >> bit & 1) != 0) {
      rest += sum;
      place += rest < sum;
    }
  }
  std::uint64_t end = 0, sample = 0;
  while ((end += weights[sample]) <= place) ++sample;
  return sample;
}

}  // namespace

TEST_SUITE("store/dataset/sample_weights") {
  TEST_CASE("a draw is the one of the definition") {
    const WeightFile file;
    const std::vector<std::vector<std::uint64_t>> cases = {
        {1}, {0, 3, 0, 1, 0}, {5, 1, 1, 1, 92}, {1ULL << 61, 12345678901234567, 1, 0, 1ULL << 62}};
    for (const auto& weights : cases) {
      const auto read = file.read("<i8", weights, weights.size());
      REQUIRE_MESSAGE(read.ok(), (read.ok() ? "" : read.error().message));
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
        for (std::uint64_t position = 0; position < 200; ++position) {
          const std::uint64_t drawn =
              read->draw(stream_key(9, DataStream::kWeightedDraw, epoch), position);
          REQUIRE(drawn == draw_of(weights, 9, epoch, position));
          REQUIRE(weights[drawn] > 0);
        }
    }
  }

  TEST_CASE("samples occur in proportion to their weights") {
    const WeightFile file;
    std::vector<float> weights(1000, 0.25F);
    weights[17] = 250.25F;  // the half of all
    const auto read = file.read("<f4", weights, weights.size());
    REQUIRE(read.ok());
    std::map<std::uint64_t, int> times;
    for (std::uint64_t epoch = 0; epoch < 20; ++epoch)
      for (std::uint64_t i = 0; i < 1000; ++i) ++times[weighted(*read, 4).permuted(epoch, i)];
    // 20,000 draws: 5 standard deviations are 353.
    CHECK(times[17] > 10'000 - 353);
    CHECK(times[17] < 10'000 + 353);
    CHECK(times.size() > 990);
  }

  TEST_CASE("an epoch has the same draws for any number of ranks") {
    const WeightFile file;
    const auto read =
        file.read("<f8", std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 12);
    REQUIRE(read.ok());
    const EpochSampler one = weighted(*read, 3), four = weighted(*read, 3, 4, 3);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
      for (VirtualRank rank = 0; rank < 4; ++rank) {
        std::vector<std::uint64_t> batch(3);
        four.batch({epoch, 0}, rank, batch);
        for (std::uint32_t i = 0; i < 3; ++i) {
          CHECK(batch[i] == one.permuted(epoch, rank * 3 + i));
          CHECK(batch[i] == four.sample({epoch, 0}, rank, i));
        }
      }
    std::vector<std::uint64_t> first, second;
    for (std::uint64_t i = 0; i < 12; ++i) {
      first.push_back(one.permuted(0, i));
      second.push_back(one.permuted(1, i));
    }
    CHECK(first != second);
  }

  TEST_CASE("real weights count by their share of the largest one") {
    const WeightFile file;
    const auto a = file.read("<f8", std::vector<double>{0.5, 0.25, 1e-12, 0.125}, 4);
    const auto b =
        file.read("<i8", std::vector<std::int64_t>{4LL << 30, 2LL << 30, 0, 1LL << 30}, 4);
    REQUIRE(a.ok());
    REQUIRE(b.ok());
    for (std::uint64_t i = 0; i < 100; ++i) CHECK(a->draw({1, 2}, i) == b->draw({1, 2}, i));
  }

  TEST_CASE("weights that are no weights are refused") {
    const WeightFile file;
    const std::string place = file.path().string();
    const auto error = [&](const Result<SampleWeights>& read) {
      REQUIRE_FALSE(read.ok());
      return read.error().message;
    };
    CHECK(error(file.read("<i4", std::vector<std::int32_t>{1, 2}, 3)) ==
          place + ": number of weights = 2: allowed is 3, the number of training samples");
    CHECK(error(file.read("<i4", std::vector<std::int32_t>{1, -2}, 2)) ==
          place + ": the weight of sample 1 is not as it must be: allowed is 0 and more");
    for (const double wrong : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")})
      CHECK(error(file.read("<f8", std::vector<double>{wrong, 2.0}, 2)) ==
            place +
                ": the weight of sample 0 is not as it must be: allowed is 0 and more, and finite");
    CHECK(error(file.read("<f8", std::vector<double>{0.0, 0.0}, 2)) ==
          place + ": the sum of the weights is not as it must be: allowed is more than 0");
    CHECK(error(file.read("<i8", std::vector<std::int64_t>{1LL << 62, 1LL << 62}, 2)) ==
          place + ": the sum of the weights is not as it must be: allowed is less than 2^63");
    CHECK(error(file.read("|b1", std::vector<std::uint8_t>{1, 1}, 2)).find("one axis") !=
          std::string::npos);
    CHECK_FALSE(SampleWeights::read(file.directory / "none.npy", 2).ok());
  }
}

}  // namespace es::store
