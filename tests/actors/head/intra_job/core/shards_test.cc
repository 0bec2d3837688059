#include "actors/head/intra_job/core/shards.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/support/seed.h"

namespace es::actors::intra_job {
namespace {

using protocol::Holders;
using protocol::Report;
using Reports = std::map<Incarnation, Report>;

Report report(std::optional<Version> version, std::vector<std::uint32_t> held,
              std::vector<std::uint32_t> summed = {}, bool ahead = false) {
  return {.stamp = {}, .version = version, .held = held, .summed = summed, .ahead = ahead};
}

std::vector<ShardMember> members(std::size_t count, std::size_t nodes) {
  std::vector<ShardMember> all;
  for (std::size_t m = 0; m < count; ++m) all.push_back({{m + 1}, "n" + std::to_string(m % nodes)});
  return all;
}

std::uint64_t load_of(const std::vector<Holders>& holders, const std::vector<std::uint64_t>& floats,
                      Incarnation member) {
  std::uint64_t load = 0;
  for (std::size_t b = 0; b < floats.size(); ++b)
    load += (holders[b].owner == member) * floats[b] + (holders[b].buddy == member) * floats[b];
  return load;
}

TEST_SUITE("actors/head/intra_job/shards") {
  TEST_CASE("the target is the version to which a member has gone, and holders of sums follow it") {
    // No worker has begun the update: all stay where they are, although every sum exists.
    Reports reports = {{{1}, report(4, {0, 1}, {0, 1})}, {{2}, report(4, {0, 1}, {0, 1})}};
    auto found = find_shards(reports, 2);
    REQUIRE(found);
    CHECK(found->target == 4);
    // One is ahead. The other makes its shards from its sums.
    reports[{3}] = report(4, {1}, {}, true);
    found = find_shards(reports, 2);
    REQUIRE(found);
    CHECK(found->target == 5);
    CHECK(found->rest == Incarnation{3});
    CHECK(found->by_bucket[0] == Incarnation{1});
    // A worker that has committed the version counts as one that is ahead to it.
    reports[{4}] = report(5, {0});
    CHECK(find_shards(reports, 2)->by_bucket[0] != Incarnation{3});
    CHECK(find_shards(reports, 2)->target == 5);
    // Without the sum there is no shard of the target.
    Reports without = {{{1}, report(4, {0, 1})}, {{3}, report(4, {1}, {}, true)}};
    CHECK(find_shards(without, 2)->lost == 0U);
    CHECK_FALSE(find_shards(reports, 2)->lost);
    // Joiners hold nothing.
    const Reports empty = {{{1}, report(std::nullopt, {})}};
    CHECK_FALSE(find_shards(empty, 2));
  }

  TEST_CASE("two members on two nodes hold each bucket, with even loads and little movement") {
    std::mt19937_64 random(test::seed("shards"));
    for (int round = 0; round < 300; ++round) {
      std::vector<std::uint64_t> floats(1 + random() % 40);
      for (std::uint64_t& f : floats) f = 1 + random() % 100;
      std::vector<std::set<Incarnation>> have(floats.size());
      std::vector<Holders> before;
      for (int change = 0; change < 3; ++change) {
        const std::size_t count = 1 + random() % 9;
        // One node, or one for each member: other divisions cannot be even.
        const auto all = members(count, random() % 2 == 0 ? 1 : count);
        const std::vector<Holders> holders = assign_shards(floats, all, have);
        CHECK(assign_shards(floats, all, have) == holders);
        const std::uint64_t largest = *std::ranges::max_element(floats);
        std::uint64_t total = 0;
        for (const std::uint64_t f : floats) total += f;
        for (const ShardMember& member : all)
          for (const ShardMember& other : all)
            CHECK(load_of(holders, floats, member.incarnation) <=
                  load_of(holders, floats, other.incarnation) + 2 * total / count / 10 + largest);
        const auto node = [&](Incarnation i) { return all[i.value - 1].node; };
        const bool several =
            std::ranges::any_of(all, [&](const ShardMember& m) { return m.node != all[0].node; });
        for (const Holders& pair : holders) {
          CHECK((pair.owner == pair.buddy) == (count == 1));
          if (several) CHECK(node(pair.owner) != node(pair.buddy));
        }
        for (std::size_t b = 0; b < floats.size(); ++b)
          have[b] = {holders[b].owner, holders[b].buddy};
        // The same members again: nothing moves between the pairs.
        const std::vector<Holders> again = assign_shards(floats, all, have);
        for (std::size_t b = 0; b < floats.size(); ++b)
          CHECK(std::set{again[b].owner, again[b].buddy} == have[b]);
      }
    }
  }
}

}  // namespace
}  // namespace es::actors::intra_job
