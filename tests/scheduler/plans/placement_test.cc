#include "scheduler/plans/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "tests/support/seed.h"

namespace es::scheduler {
namespace {

std::vector<std::uint32_t> sizes(const std::vector<RankRange>& ranges) {
  std::vector<std::uint32_t> result;
  for (const RankRange& r : ranges) result.push_back(r.size());
  return result;
}

double bottleneck(const std::vector<std::uint32_t>& sizes, const std::vector<double>& capability) {
  double worst = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) worst = std::max(worst, sizes[d] / capability[d]);
  return worst;
}

// The nodes of the tree that lie in the range and whose parents do not.
std::uint32_t maximal_nodes(RankRange range, RankRange node, std::uint32_t max_p) {
  if (node.begin >= range.end || node.end <= range.begin || node.begin >= max_p) return 0;
  if (range.begin <= node.begin && std::min(node.end, max_p) <= range.end) return 1;
  const VirtualRank middle = (node.begin + node.end) / 2;
  return maximal_nodes(range, {node.begin, middle}, max_p) +
         maximal_nodes(range, {middle, node.end}, max_p);
}

std::vector<std::uint32_t> balanced_shares(const std::vector<double>& capability,
                                           std::uint32_t max_p) {
  std::vector<std::uint32_t> shares(capability.size(), 1);
  for (auto given = shares.size(); given < max_p; ++given) {
    std::size_t least = 0;
    for (std::size_t d = 1; d < shares.size(); ++d)
      if ((shares[d] + 1) / capability[d] < (shares[least] + 1) / capability[least]) least = d;
    ++shares[least];
  }
  return shares;
}

// All divisions among devices in descending capability, judged one by one.
class BruteForce {
 public:
  BruteForce(const std::vector<double>& capability, std::uint32_t max_p)
      : capability_(capability), max_p_(max_p), shares_(balanced_shares(capability, max_p)) {
    extend();
  }
  double least_bottleneck = 1e300;
  // Only divisions with that bottleneck and at most twice the balanced share on any device count.
  std::uint32_t fewest_sums = 0;

 private:
  void extend() {
    if (chosen_.size() == capability_.size()) return judge();
    for (std::uint32_t size = 1; size <= max_p_; ++size) {
      chosen_.push_back(size);
      extend();
      chosen_.pop_back();
    }
  }

  void judge() {
    if (std::accumulate(chosen_.begin(), chosen_.end(), 0U) != max_p_) return;
    const double worst = bottleneck(chosen_, capability_);
    if (worst < least_bottleneck) fewest_sums = ~0U;
    least_bottleneck = std::min(least_bottleneck, worst);
    if (worst > least_bottleneck) return;
    std::uint32_t sums = 0;
    VirtualRank begin = 0;
    for (std::size_t d = 0; d < chosen_.size(); ++d) {
      if (chosen_[d] > 2 * shares_[d]) return;
      sums += partial_sums({begin, begin + chosen_[d]}, max_p_);
      begin += chosen_[d];
    }
    fewest_sums = std::min(fewest_sums, sums);
  }

  const std::vector<double>& capability_;
  const std::uint32_t max_p_;
  const std::vector<std::uint32_t> shares_;
  std::vector<std::uint32_t> chosen_;
};

}  // namespace

TEST_SUITE("scheduler/placement") {
  TEST_CASE("equal devices share the ranks evenly, in the given order") {
    CHECK(assign_ranks(std::vector{1.0, 1.0, 1.0, 1.0}, 8) ==
          std::vector<RankRange>{{0, 2}, {2, 4}, {4, 6}, {6, 8}});
    CHECK(sizes(assign_ranks(std::vector{0.7, 0.7, 0.7}, 4)) ==
          std::vector<std::uint32_t>{2, 1, 1});
    CHECK(assign_ranks(std::vector{3.0}, 5) == std::vector<RankRange>{{0, 5}});
  }

  TEST_CASE("faster devices take more ranks, and the first ones") {
    CHECK(assign_ranks(std::vector{1.0, 3.0}, 4) == std::vector<RankRange>{{3, 4}, {0, 3}});
  }

  TEST_CASE("every device has an EST, even one that is much slower") {
    CHECK(sizes(assign_ranks(std::vector{100.0, 0.01}, 4)) == std::vector<std::uint32_t>{3, 1});
  }

  TEST_CASE("ranges are aligned powers of two if that costs no time") {
    // The division 5 + 2 + 1 would be as fast, but 5 ranks need two partial sums.
    CHECK(assign_ranks(std::vector{5.0, 2.0, 2.0}, 8) ==
          std::vector<RankRange>{{0, 4}, {4, 6}, {6, 8}});
  }

  TEST_CASE("each of 2^k equal devices has one aligned range: one gradient buffer") {
    for (const std::uint32_t max_p : {1U, 8U, 64U, 1024U})
      for (std::uint32_t n = 1; n <= std::min(max_p, 64U); n *= 2) {
        for (const RankRange& r : assign_ranks(std::vector<double>(n, 0.7), max_p)) {
          CHECK(r.size() == max_p / n);
          CHECK(partial_sums(r, max_p) == 1);
        }
      }
  }

  TEST_CASE("a device twice as fast has one aligned range too") {
    // Two fast devices and four slow ones: 4 + 4 + 2 + 2 + 2 + 2.
    const std::vector<double> capability{1.0, 2.0, 1.0, 1.0, 2.0, 1.0};
    const std::vector<RankRange> ranges = assign_ranks(capability, 16);
    CHECK(sizes(ranges) == std::vector<std::uint32_t>{2, 4, 2, 2, 4, 2});
    for (const RankRange& r : ranges) CHECK(partial_sums(r, 16) == 1);
  }

  WireCost wire(std::size_t n, double seconds_per_crossing) {
    WireCost cost{.hosts = {}, .seconds_per_crossing = seconds_per_crossing};
    for (std::size_t d = 0; d < n; ++d) cost.hosts.push_back(std::to_string(d));
    return cost;
  }

  TEST_CASE("ranges are longer where fewer sums between hosts save more than that") {
    const std::vector<double> equal(3, 1.0);
    // 20 + 22 + 22 have 5 crossings on average, 16 + 24 + 24 have 3.
    CHECK(mean_crossings(assign_ranks(equal, 64), wire(3, 0), 64) == doctest::Approx(5));
    CHECK(assign_ranks(equal, 64, wire(3, 0.9)) == assign_ranks(equal, 64));
    const std::vector<RankRange> aligned = assign_ranks(equal, 64, wire(3, 1.1));
    CHECK(mean_crossings(aligned, wire(3, 0), 64) == doctest::Approx(3));
    CHECK(std::ranges::max(sizes(aligned)) == 24);
    WireCost together = wire(3, 100);
    together.hosts = {"a", "a", "a"};
    CHECK(assign_ranks(equal, 64, together) == assign_ranks(equal, 64));
    CHECK(mean_crossings(aligned, together, 64) == 0);
  }

  TEST_CASE("whatever crossings cost, the step is at most that of the shortest computation") {
    std::mt19937_64 random(test::seed("assign_ranks wire"));
    for (int round = 0; round < 200; ++round) {
      const std::size_t n = 1 + random() % 8;
      const auto max_p = static_cast<std::uint32_t>(n + random() % 60);
      std::vector<double> capability(n);
      for (double& c : capability) c = static_cast<double>(1 + random() % 4);
      WireCost cost = wire(n, static_cast<double>(random() % 100) / 20);
      for (std::string& host : cost.hosts) host = std::to_string(random() % n);
      const auto seconds = [&](const std::vector<RankRange>& ranges) {
        return bottleneck(sizes(ranges), capability) +
               cost.seconds_per_crossing * mean_crossings(ranges, cost, max_p);
      };
      const std::vector<RankRange> shortest = assign_ranks(capability, max_p);
      const std::vector<RankRange> ranges = assign_ranks(capability, max_p, cost);
      CHECK(seconds(ranges) <= seconds(shortest));
      CHECK(bottleneck(sizes(ranges), capability) <=
            kLongerStep * bottleneck(sizes(shortest), capability) * (1 + 1e-12));
    }
  }

  TEST_CASE("aligned ranges stay as they are, whatever crossings cost") {
    for (const std::size_t n : {1U, 2U, 4U, 8U}) {
      const std::vector<double> equal(n, 2.0);
      CHECK(assign_ranks(equal, 64, wire(n, 1e6)) == assign_ranks(equal, 64));
    }
  }

  TEST_CASE("a range of ranks is made of its maximal tree nodes") {
    CHECK(partial_sums({0, 8}, 8) == 1);
    CHECK(partial_sums({0, 3}, 8) == 2);
    CHECK(partial_sums({1, 7}, 8) == 4);
    CHECK(partial_sums({4, 5}, 5) == 1);  // The tree is cut at max_p.
    CHECK(partial_sums({0, 5}, 5) == 1);
    CHECK(partial_sums({2, 2}, 5) == 0);
    for (std::uint32_t max_p = 1; max_p <= 33; ++max_p)
      for (VirtualRank begin = 0; begin < max_p; ++begin)
        for (VirtualRank end = begin; end <= max_p; ++end)
          CHECK(partial_sums({begin, end}, max_p) == maximal_nodes({begin, end}, {0, 64}, max_p));
  }

  TEST_CASE("the bottleneck and then the number of partial sums are the least possible") {
    std::mt19937_64 random(test::seed("assign_ranks"));
    for (int round = 0; round < 1500; ++round) {
      const std::size_t n = 1 + random() % 4;
      const auto max_p = static_cast<std::uint32_t>(n + random() % 8);
      std::vector<double> capability(n);
      for (double& c : capability)
        c = random() % 2 == 0 ? static_cast<double>(1 + random() % 4)
                              : static_cast<double>(1 + random() % 1000) / 99;
      std::sort(capability.begin(), capability.end(), std::greater<>());
      const std::vector<RankRange> ranges = assign_ranks(capability, max_p);
      std::uint32_t sums = 0;
      for (const RankRange& r : ranges) sums += partial_sums(r, max_p);
      const BruteForce best(capability, max_p);
      CHECK(bottleneck(sizes(ranges), capability) == best.least_bottleneck);
      CHECK(sums == best.fewest_sums);
    }
  }

  TEST_CASE("ranges cover all ranks without gap, for any number of devices") {
    std::mt19937_64 random(test::seed("assign_ranks cover"));
    for (int round = 0; round < 300; ++round) {
      const auto max_p = static_cast<std::uint32_t>(1 + random() % 200);
      std::vector<double> capability(1 + random() % max_p);
      for (double& c : capability) c = static_cast<double>(1 + random() % 50) / 7;
      std::vector<RankRange> ranges = assign_ranks(capability, max_p);
      CHECK(ranges == assign_ranks(capability, max_p));
      std::sort(ranges.begin(), ranges.end());
      VirtualRank next = 0;
      for (const RankRange& r : ranges) {
        CHECK(r.begin == next);
        CHECK_FALSE(r.empty());
        next = r.end;
      }
      CHECK(next == max_p);
    }
  }

  TEST_CASE("a much slower device does not make the others arbitrarily unequal") {
    std::vector<double> capability(300, 1.0);
    capability.push_back(0.001);
    const std::vector<RankRange> ranges = assign_ranks(capability, 1024);
    CHECK(ranges.back().size() == 1);
    CHECK(std::all_of(ranges.begin(), ranges.end(),
                      [](const RankRange& r) { return r.size() <= 8; }));
  }

  TEST_CASE("the largest job is divided among a thousand devices") {
    const std::vector<RankRange> ranges = assign_ranks(std::vector<double>(1000, 0.3), 1024);
    CHECK(std::all_of(ranges.begin(), ranges.end(),
                      [](const RankRange& r) { return r.size() == 1 || r.size() == 2; }));
  }

  TEST_CASE("as many workers as possible stay, the earlier ones of a type") {
    const std::vector<DeviceType> current{{"a"}, {"b"}, {"a"}, {"a"}};
    const StayChoice choice = choose_stay(current, *parse_device_set("a:2+c:1"));
    CHECK(choice.stay == std::vector<std::size_t>{0, 2});
    CHECK(choice.leave == std::vector<std::size_t>{1, 3});
    CHECK(choice.join.text() == "c:1");
  }

  TEST_CASE("no worker moves when the wanted devices are those in use") {
    const std::vector<DeviceType> current{{"b"}, {"a"}};
    const StayChoice choice = choose_stay(current, *parse_device_set("a:1+b:1"));
    CHECK(choice.stay.size() == 2);
    CHECK(choice.leave.empty());
    CHECK(choice.join.empty());
    CHECK(choose_stay(current, {}).leave.size() == 2);
  }
}

}  // namespace es::scheduler
