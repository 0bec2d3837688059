#include "actors/base/protocol/core/messages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "tests/actors/base/protocol/toy_engine.h"

namespace es::actors::protocol {
namespace {

TEST_SUITE("actors/base/protocol/messages") {
  TEST_CASE("the ranges that a tree node covers, cut at max_p, are those of the list") {
    for (std::uint32_t max_p = 1; max_p <= 17; ++max_p) {
      std::set<RankRange> covered;
      for (std::uint32_t level = 0; level <= 5; ++level)
        for (VirtualRank begin = 0; begin < max_p; begin += 1U << level)
          covered.insert({begin, std::min(begin + (1U << level), max_p)});
      for (VirtualRank begin = 0; begin <= max_p + 1; ++begin)
        for (VirtualRank end = 0; end <= max_p + 1; ++end)
          CHECK(test::is_tree_range({begin, end}, max_p) == covered.contains({begin, end}));
    }
    CHECK_FALSE(test::is_tree_range({0, 4'000'000'000U}, 5));
  }

  TEST_CASE("the maximal nodes of any range cover it exactly") {
    for (std::uint32_t max_p = 1; max_p <= 17; ++max_p) {
      for (VirtualRank begin = 0; begin < max_p; ++begin) {
        for (VirtualRank end = begin + 1; end <= max_p; ++end) {
          VirtualRank next = begin;
          for (const RankRange ranks : es::test::maximal_ranges({begin, end}, max_p)) {
            CHECK(test::is_tree_range(ranks, max_p));
            CHECK(ranks.begin == next);
            next = ranks.end;
          }
          CHECK(next == end);
        }
      }
    }
  }
}

}  // namespace
}  // namespace es::actors::protocol
