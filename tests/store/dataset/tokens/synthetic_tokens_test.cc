#include "store/dataset/sources.h"

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <numeric>

namespace es::store {
namespace {

constexpr std::uint32_t kLength = 50, kVocabulary = 101;
constexpr std::uint64_t kSamples = 200;

std::shared_ptr<const SampleSource> small_source() {
  return synthetic_token_source({.samples = kSamples,
                                 .eval_samples = kSamples,
                                 .vocabulary = kVocabulary,
                                 .length = kLength});
}

// Ids of all samples, and then labels of all samples.
std::vector<std::uint32_t> tokens_of(const SampleSource& source, bool eval) {
  std::vector<float> words(2 * kLength * kSamples);
  std::vector<std::uint64_t> samples(kSamples);
  std::iota(samples.begin(), samples.end(), 0U);
  REQUIRE(
      (eval ? source.fill_eval(0, kSamples, kSamples, words) : source.fill_train(3, samples, words))
          .ok());
  std::vector<std::uint32_t> tokens;
  for (const float w : words) tokens.push_back(std::bit_cast<std::uint32_t>(w));
  return tokens;
}

}  // namespace

TEST_SUITE("store/dataset/synthetic_tokens") {
  TEST_CASE("every token is followed by one of four, with the stated probabilities") {
    const auto source = small_source();
    for (const bool eval : {false, true}) {
      const std::vector<std::uint32_t> tokens = tokens_of(*source, eval);
      const std::size_t count = kLength * kSamples;
      std::array<double, 4> found{};
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t first = (5 * tokens[i] + 1) % kVocabulary;
        // Steps of 7 from the first of the four.
        std::uint32_t steps = 0;
        while (steps < 4 && (first + 7 * steps) % kVocabulary != tokens[count + i]) ++steps;
        REQUIRE(steps < 4);
        found[steps] += 1.0 / static_cast<double>(count);
        const bool last = (i + 1) % kLength == 0;
        if (!last) REQUIRE(tokens[i + 1] == tokens[count + i]);
      }
      CHECK(found[0] == doctest::Approx(0.5).epsilon(0.05));
      CHECK(found[1] == doctest::Approx(0.25).epsilon(0.05));
      CHECK(found[2] == doctest::Approx(0.125).epsilon(0.1));
      CHECK(found[3] == doctest::Approx(0.125).epsilon(0.1));
    }
  }

  TEST_CASE("samples are the same again, and those of the evaluation are others") {
    CHECK(tokens_of(*small_source(), false) == tokens_of(*small_source(), false));
    CHECK(tokens_of(*small_source(), false) != tokens_of(*small_source(), true));
  }
}

}  // namespace es::store
