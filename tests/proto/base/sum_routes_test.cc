#include "proto/base/sum_routes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>

#include "tests/support/seed.h"

namespace es {
namespace {

using Members = std::vector<SumMember>;

Members split(std::uint32_t max_p, std::vector<std::uint32_t> sizes,
              const std::vector<std::string>& hosts) {
  Members members;
  VirtualRank begin = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    members.push_back({{begin, begin + sizes[i]}, hosts[i]});
    begin += sizes[i];
  }
  REQUIRE(begin == max_p);
  return members;
}

Members random_members(std::mt19937_64& random, std::uint32_t max_p) {
  std::set<VirtualRank> ends = {max_p};
  for (std::uint64_t i = random() % 9; i > 0; --i)
    ends.insert(1 + static_cast<VirtualRank>(random() % max_p));
  const std::uint64_t hosts = 1 + random() % 6;
  Members members;
  VirtualRank begin = 0;
  for (const VirtualRank end : ends) {
    members.push_back({{begin, end}, std::to_string(random() % hosts)});
    begin = end;
  }
  std::shuffle(members.begin(), members.end(), random);
  return members;
}

Members even(std::uint32_t n, std::uint32_t max_p) {
  Members members;
  for (std::uint32_t m = 0; m < n; ++m)
    members.push_back({{m * max_p / n, (m + 1) * max_p / n}, std::to_string(m)});
  return members;
}

std::size_t member_with(const Members& members, RankRange ranks) {
  return static_cast<std::size_t>(std::ranges::find_if(members,
                                                       [&](const SumMember& member) {
                                                         return member.ranks.begin <= ranks.begin &&
                                                                ranks.end <= member.ranks.end;
                                                       }) -
                                  members.begin());
}

// The least number of crossings by the definition: every place of every node is tried (Sankoff
// 1975). It shares nothing with the class, which never compares costs.
class Bound {
 public:
  Bound(const Members& members, std::uint32_t max_p) : members_(members), max_p_(max_p) {
    for (const SumMember& member : members) hosts_.insert(member.host);
  }

  std::uint32_t crossings(const std::string& owner) const {
    return costs(0, std::bit_ceil(max_p_)).at(owner);
  }

 private:
  static constexpr std::uint32_t kNever = 1'000'000;
  using Costs = std::map<std::string, std::uint32_t>;  // by the host at which the sum is wanted

  Costs costs(VirtualRank begin, std::uint32_t size) const {
    const VirtualRank end = std::min(begin + size, max_p_);
    Costs made;  // by the host at which it is made
    const std::size_t whole = member_with(members_, {begin, end});
    if (whole < members_.size()) {
      for (const std::string& host : hosts_) made[host] = kNever;
      made[members_[whole].host] = 0;
    } else if (begin + size / 2 >= max_p_) {
      return costs(begin, size / 2);
    } else {
      const Costs left = costs(begin, size / 2);
      const Costs right = costs(begin + size / 2, size / 2);
      for (const std::string& host : hosts_) made[host] = left.at(host) + right.at(host);
    }
    Costs wanted;
    for (const std::string& host : hosts_) {
      wanted[host] = made[host];
      for (const auto& [from, cost] : made) wanted[host] = std::min(wanted[host], cost + 1);
    }
    return wanted;
  }

  const Members& members_;
  std::uint32_t max_p_;
  std::set<std::string> hosts_;
};

std::uint32_t crossing_parts(const Members& members, const std::vector<PartialSum>& sums) {
  std::uint32_t crossing = 0;
  for (const PartialSum& sum : sums)
    for (const PartialSum::Part& part : sum.parts)
      crossing += members[part.at].host == members[sum.at].host ? 0 : 1;
  return crossing;
}

// Whether a range is one node of the tree, and no larger node inside the range of the member with
// it has it as a child.
bool is_maximal(RankRange ranks, RankRange of, std::uint32_t max_p) {
  const std::uint32_t size = std::bit_ceil(ranks.size());
  const bool is_node = ranks.begin % size == 0 && (ranks.size() == size || ranks.end == max_p);
  const VirtualRank begin = ranks.begin / (2 * size) * 2 * size;
  const RankRange parent{begin, std::min(begin + 2 * size, max_p)};
  return is_node && (parent == ranks || parent.begin < of.begin || parent.end > of.end);
}

TEST_SUITE("proto/base/sum_routes") {
  TEST_CASE("no place of any addition has fewer crossings, and the sums are those that are named") {
    std::mt19937_64 random(test::seed("sum_routes"));
    for (int trial = 0; trial < 3000; ++trial) {
      const auto max_p = 1 + static_cast<std::uint32_t>(random() % 70);
      const Members members = random_members(random, max_p);
      const SumRoutes routes(members, max_p);
      const Bound bound(members, max_p);
      for (std::uint32_t owner = 0; owner < members.size(); ++owner) {
        CAPTURE(max_p);
        const std::uint32_t least = bound.crossings(members[owner].host);
        CHECK(routes.crossings(owner) == least);
        CHECK(crossing_parts(members, routes.to(owner)) == least);
      }
    }
  }

  TEST_CASE("every sum has all parts of its ranks, each from the one member that has it") {
    std::mt19937_64 random(test::seed("sum_routes parts"));
    for (int trial = 0; trial < 2000; ++trial) {
      const auto max_p = 1 + static_cast<std::uint32_t>(random() % 70);
      const Members members = random_members(random, max_p);
      for (std::uint32_t owner = 0; owner < members.size(); ++owner) {
        std::set<std::pair<RankRange, std::uint32_t>> made;
        std::size_t used = 0;
        const std::vector<PartialSum> sums = SumRoutes(members, max_p).to(owner);
        for (const PartialSum& sum : sums) {
          VirtualRank next = sum.ranks.begin;
          bool has_own = false;
          for (const PartialSum::Part& part : sum.parts) {
            CHECK(part.ranks.begin == next);
            next = part.ranks.end;
            const bool is_partial = made.contains({part.ranks, part.at});
            if (is_partial) ++used;
            const bool is_own_node = is_maximal(part.ranks, members[part.at].ranks, max_p) &&
                                     member_with(members, part.ranks) == part.at;
            CHECK(is_partial != is_own_node);
            has_own = has_own || (is_own_node && part.at == sum.at);
          }
          CHECK(next == sum.ranks.end);
          const bool is_whole = &sum == &sums.back();
          CHECK((is_whole || has_own));
          if (!is_whole) CHECK(made.insert({sum.ranks, sum.at}).second);
        }
        CHECK(used == made.size());
        CHECK(sums.back().ranks == RankRange{0, max_p});
        CHECK(sums.back().at == owner);
      }
    }
  }

  TEST_CASE("on one host the owner adds all, and aligned ranges have one part each") {
    const Members close = split(8, {3, 3, 2}, {"a", "a", "a"});
    const std::vector<PartialSum> sums = SumRoutes(close, 8).to(1);
    REQUIRE(sums.size() == 1);
    CHECK(sums[0].parts.size() == 5);
    CHECK(SumRoutes(close, 8).crossings(1) == 0);
    CHECK(SumRoutes(split(8, {2, 2, 2, 2}, {"a", "b", "c", "d"}), 8).crossings(3) == 3);
    CHECK(SumRoutes(split(8, {8}, {"a"}), 8).to(0) ==
          std::vector<PartialSum>{{{0, 8}, 0, {{{0, 8}, 0}}}});
  }

  TEST_CASE("members of one host are added before anything leaves it") {
    const Members members = split(8, {2, 2, 1, 3}, {"a", "a", "b", "b"});
    const std::vector<PartialSum> sums = SumRoutes(members, 8).to(0);
    REQUIRE(sums.size() == 2);
    CHECK(sums[0].ranks == RankRange{4, 8});
    CHECK(members[sums[0].at].host == "b");
    CHECK(sums[1].parts.size() == 3);
    CHECK(SumRoutes(members, 8).crossings(0) == 1);
  }

  // One by one a member would send 2.0 to 2.3 times the bytes of a ring all-reduce.
  TEST_CASE("even ranges at max_p = 64 cost the least times of a ring that the tree allows") {
    const std::map<std::uint32_t, double> known = {{3, 2.0}, {5, 1.725}, {6, 1.6}, {8, 1.0}};
    for (const auto& [n, expected] : known) {
      const Members members = even(n, 64);
      const SumRoutes routes(members, 64);
      double sent = n * (n - 1.0);  // the sums come back to all
      for (std::uint32_t owner = 0; owner < n; ++owner) sent += routes.crossings(owner);
      CHECK(sent / (2 * n * (n - 1.0)) == doctest::Approx(expected));
    }
  }

  TEST_CASE("the least is reached for every number of members at every usual max_p") {
    for (std::uint32_t max_p = 8; max_p <= 1024; max_p *= 2)
      for (std::uint32_t n = 2; n <= std::min(max_p, 17U); ++n) {
        const Members members = even(n, max_p);
        const SumRoutes routes(members, max_p);
        const Bound bound(members, max_p);
        for (std::uint32_t owner = 0; owner < n; ++owner)
          CHECK(crossing_parts(members, routes.to(owner)) == bound.crossings(members[owner].host));
      }
  }

  TEST_CASE("a thousand members are planned at once") {
    const Members members = even(1000, 1024);
    const SumRoutes routes(members, 1024);
    CHECK(crossing_parts(members, routes.to(7)) == routes.crossings(7));
  }
}

}  // namespace
}  // namespace es
