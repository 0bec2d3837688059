#include "actors/worker/core/bucket_sum.h"

#include <doctest/doctest.h>

namespace es::actors::worker {
namespace {

using protocol::Contrib;

Contrib contrib(std::uint64_t sender, RankRange ranks, bool drain = false) {
  Contrib result;
  result.stamp = {Generation{1}, Incarnation{sender}};
  result.ranks = ranks;
  result.drain = drain;
  for (VirtualRank rank = ranks.begin; rank < ranks.end; ++rank)
    result.results.push_back({rank, 0, {}});
  return result;
}

TEST_SUITE("actors/worker/bucket_sum") {
  TEST_CASE("parts and results are in rank order, in any order of arrival") {
    BucketSum sum({0, 5});
    CHECK(sum.add(contrib(3, {4, 5})) == BucketSum::Added::kCounted);
    CHECK(sum.add(contrib(1, {0, 2})) == BucketSum::Added::kCounted);
    CHECK_FALSE(sum.complete());
    CHECK(sum.has({0, 2}));
    CHECK_FALSE(sum.has({2, 4}));
    CHECK_FALSE(sum.has({0, 1}));
    CHECK(sum.add(contrib(2, {2, 4})) == BucketSum::Added::kCounted);
    REQUIRE(sum.complete());
    const std::vector<protocol::Contrib>& parts = sum.parts();
    REQUIRE(parts.size() == 3);
    CHECK(parts[0].stamp.sender == Incarnation{1});
    CHECK(parts[1].stamp.sender == Incarnation{2});
    CHECK(parts[2].stamp.sender == Incarnation{3});
    const std::vector<protocol::RankResult> results = sum.results();
    REQUIRE(results.size() == 5);
    for (VirtualRank rank = 0; rank < 5; ++rank) CHECK(results[rank].rank == rank);
  }

  TEST_CASE("a repeated part of one sender counts once") {
    BucketSum sum({0, 5});
    CHECK(sum.add(contrib(1, {0, 2})) == BucketSum::Added::kCounted);
    CHECK(sum.add(contrib(1, {0, 2})) == BucketSum::Added::kDuplicate);
    CHECK(sum.add(contrib(1, {2, 4})) == BucketSum::Added::kCounted);
    CHECK_FALSE(sum.complete());
  }

  TEST_CASE("a rank in two different contributions is refused") {
    BucketSum sum({0, 5});
    CHECK(sum.add(contrib(1, {0, 2})) == BucketSum::Added::kCounted);
    CHECK(sum.add(contrib(1, {0, 4})) == BucketSum::Added::kOverlap);
    CHECK(sum.add(contrib(2, {1, 2})) == BucketSum::Added::kOverlap);
    CHECK(sum.add(contrib(2, {0, 2})) == BucketSum::Added::kOverlap);
  }

  TEST_CASE("a partial sum is complete with the ranks of its node") {
    BucketSum sum({4, 7});
    CHECK(sum.add(contrib(1, {6, 7})) == BucketSum::Added::kCounted);
    CHECK_FALSE(sum.complete());
    CHECK(sum.add(contrib(2, {4, 6})) == BucketSum::Added::kCounted);
    CHECK(sum.complete());
  }

  TEST_CASE("one drain flag is enough") {
    BucketSum sum({0, 5});
    sum.add(contrib(1, {0, 2}, true));
    sum.add(contrib(2, {2, 4}, false));
    CHECK(sum.drain());
  }
}

}  // namespace
}  // namespace es::actors::worker
