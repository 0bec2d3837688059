#include "actors/protocol/messages.h"

#include <doctest/doctest.h>

#include "tests/actors/protocol/toy_engine.h"

namespace es::actors::protocol {
namespace {

TEST_SUITE("actors/protocol/messages") {
  TEST_CASE("a tree node covers its ranks, cut at max_p") {
    CHECK(ranks_of({0, 3}, 5) == RankRange{3, 4});
    CHECK(ranks_of({1, 1}, 5) == RankRange{2, 4});
    CHECK(ranks_of({2, 1}, 5) == RankRange{4, 5});
    CHECK(ranks_of({3, 0}, 5) == RankRange{0, 5});
    CHECK(ranks_of({1, 3}, 5).empty());
    CHECK(ranks_of({31, 4'000'000'000u}, 5).empty());
  }

  TEST_CASE("the maximal nodes of any range cover it exactly") {
    for (std::uint32_t max_p = 1; max_p <= 17; ++max_p) {
      for (VirtualRank begin = 0; begin < max_p; ++begin) {
        for (VirtualRank end = begin + 1; end <= max_p; ++end) {
          VirtualRank next = begin;
          for (const TreeNode node : es::test::maximal_nodes({begin, end}, max_p)) {
            CHECK(ranks_of(node, max_p).begin == next);
            next = ranks_of(node, max_p).end;
          }
          CHECK(next == end);
        }
      }
    }
  }
}

}  // namespace
}  // namespace es::actors::protocol
