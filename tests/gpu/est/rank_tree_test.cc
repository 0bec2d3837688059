#include "gpu/est/rank_tree.h"

#include <doctest/doctest.h>

TEST_SUITE("gpu/est/rank_tree") {
  using namespace es;
  using namespace es::gpu;

  TEST_CASE("nodes cover aligned runs of ranks, cut off at max_p") {
    CHECK(covered_ranks({0, 3}, 5) == RankRange{3, 4});
    CHECK(covered_ranks({2, 0}, 5) == RankRange{0, 4});
    CHECK(covered_ranks({2, 1}, 5) == RankRange{4, 5});
    CHECK(covered_ranks({3, 0}, 5) == RankRange{0, 5});
    CHECK(covered_ranks({1, 3}, 5).empty());
    // A message may name any node.
    for (std::uint32_t level = 0; level <= 200; ++level)
      CHECK(covered_ranks({level, 0xffffffff}, 5) == RankRange{5, 5});
  }

  TEST_CASE("the tree has ceil(log2(max_p)) levels above its leaves") {
    CHECK(tree_levels(1) == 0);
    CHECK(tree_levels(2) == 1);
    CHECK(tree_levels(5) == 3);
    CHECK(tree_levels(1024) == 10);
  }

  TEST_CASE("the whole range is one maximal node, the root") {
    for (std::uint32_t p = 1; p <= 40; ++p)
      CHECK(maximal_nodes({0, p}, p) == std::vector<TreeNode>{{tree_levels(p), 0}});
  }

  TEST_CASE("maximal nodes cover their range once, in order, and their number is small") {
    for (std::uint32_t p = 1; p <= 40; ++p)
      for (std::uint32_t begin = 0; begin < p; ++begin)
        for (std::uint32_t end = begin + 1; end <= p; ++end) {
          const auto nodes = maximal_nodes({begin, end}, p);
          VirtualRank at = begin;
          for (const TreeNode n : nodes) {
            CHECK(covered_ranks(n, p).begin == at);
            at = covered_ranks(n, p).end;
          }
          CHECK(at == end);
          CHECK(nodes.size() <= std::max(1U, 2 * tree_levels(p)));
        }
  }

  TEST_CASE("an aligned range of 2^k ranks needs k + 1 buffers") {
    for (std::uint32_t k = 0; k <= 5; ++k)
      for (std::uint32_t index = 0; index < (32U >> k); ++index)
        CHECK(max_live_buffers({index << k, (index + 1) << k}, 32) == k + 1);
    CHECK(max_live_buffers({0, 1024}, 1024) == 11);
  }
}
