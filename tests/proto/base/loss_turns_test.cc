#include "proto/base/loss_turns.h"

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "tests/support/seed.h"

TEST_SUITE("proto/loss turns") {
  using namespace es;

  TEST_CASE("one loss makes a step in every iteration") {
    const LossTurns one;
    CHECK_FALSE(one.several());
    CHECK(one.at(7) == LossTurn{7, 0});
    CHECK(one.steps_of(7) == 7);
  }

  TEST_CASE("the turns are those of a loop over iterations and losses") {
    std::mt19937_64 random(test::seed("loss turns"));
    for (int round = 0; round < 50; ++round) {
      std::vector<std::uint32_t> every;
      for (std::size_t j = 0; j < 2 + random() % 3; ++j)
        every.push_back(static_cast<std::uint32_t>(1 + random() % 6));
      every[random() % every.size()] = 1;
      const LossTurns turns = *LossTurns::create(every);
      std::uint64_t step = 0;
      for (std::uint64_t i = 0; i < 200; ++i) {
        CHECK(turns.steps_of(i) == step);
        for (std::uint32_t j = 0; j < every.size(); ++j)
          if (i % every[j] == 0) CHECK(turns.at(step++) == LossTurn{i, j});
      }
    }
  }

  TEST_CASE("turns that leave iterations without a step, or a pattern without end, are refused") {
    const auto refusal = [](std::vector<std::uint32_t> every) {
      return LossTurns::create(every).error().message;
    };
    CHECK(refusal({1, 0}) == "every[1] = 0: allowed is 1 to 16384");
    CHECK(refusal({2, 4}).starts_with("every: no loss makes a step in every iteration"));
    CHECK(refusal({1, 16381, 16369}).starts_with("every: the losses repeat their pattern after"));
  }
}
