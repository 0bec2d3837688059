#include "actors/esctl/client/token_choice.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

TEST_SUITE("actors/esctl/client/token_choice") {
  using namespace es::actors::esctl;

  const std::vector<float> kLogits{0.5F, 2.0F, -1.0F, 2.0F, 1.0F};

  TEST_CASE("without a temperature the first of the largest logits is chosen") {
    for (const std::uint64_t index : {0, 1, 7}) CHECK(choose_token(kLogits, {}, index) == 1);
    CHECK(choose_token(kLogits, {.temperature = {}, .top_k = 3, .seed = 9}, 0) == 1);
  }

  TEST_CASE("tokens are drawn as often as their probabilities say") {
    constexpr int kDraws = 20000;
    for (const double temperature : {0.5, 1.0, 3.0}) {
      std::vector<int> counts(kLogits.size());
      for (int i = 0; i < kDraws; ++i)
        ++counts[choose_token(kLogits, {.temperature = temperature},
                              static_cast<std::uint64_t>(i))];
      double sum = 0;
      for (const float v : kLogits) sum += std::exp(v / temperature);
      for (std::size_t t = 0; t < kLogits.size(); ++t) {
        CAPTURE(temperature);
        CAPTURE(t);
        const double expected = std::exp(kLogits[t] / temperature) / sum;
        // Four deviations of a binomial distribution.
        CHECK(std::abs(counts[t] / double(kDraws) - expected) <
              4 * std::sqrt(expected * (1 - expected) / kDraws));
      }
    }
  }

  TEST_CASE("only the k largest logits are drawn, of equal ones those of lower tokens") {
    const auto drawn = [&](std::uint64_t k) {
      std::set<std::uint32_t> tokens;
      for (std::uint64_t i = 0; i < 300; ++i)
        tokens.insert(choose_token(kLogits, {.temperature = 10.0, .top_k = k}, i));
      return tokens;
    };
    CHECK(drawn(1) == std::set<std::uint32_t>{1});
    CHECK(drawn(2) == std::set<std::uint32_t>{1, 3});
    CHECK(drawn(3) == std::set<std::uint32_t>{1, 3, 4});
    CHECK(drawn(0).size() == kLogits.size());
    CHECK(drawn(99).size() == kLogits.size());
  }

  TEST_CASE("a seed decides the tokens, and very small temperatures give the largest logit") {
    const auto drawn = [&](std::uint64_t seed) {
      std::vector<std::uint32_t> tokens;
      for (std::uint64_t i = 0; i < 50; ++i)
        tokens.push_back(choose_token(kLogits, {.temperature = 1.0, .seed = seed}, i));
      return tokens;
    };
    CHECK(drawn(3) == drawn(3));
    CHECK(drawn(3) != drawn(4));
    const std::vector<float> apart{-2e38F, 1.0F, 1.5F, 2e38F};
    CHECK(choose_token(apart, {.temperature = 1e-3}, 5) == 3);
  }
}
