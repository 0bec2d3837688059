#include "scheduler/plans/placement.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/sum_routes.h"
#include "scheduler/model/model.h"

namespace es::scheduler {
namespace {

// Every device gets one EST. Then one EST after another goes to the device that is least loaded
// with it; of equals the earlier one. The largest A_d / C_d is then minimal, because the last EST
// on the bottleneck would load any other device at least as much.
std::vector<std::uint32_t> balanced_sizes(const std::vector<double>& capabilities,
                                          std::uint32_t max_p) {
  using Load = std::pair<double, std::size_t>;  // load of a device with one EST more, device
  std::priority_queue<Load, std::vector<Load>, std::greater<>> next;
  // Every device has one EST already, so the next one would be its second.
  for (std::size_t d = 0; d < capabilities.size(); ++d) next.emplace(2 / capabilities[d], d);
  std::vector<std::uint32_t> sizes(capabilities.size(), 1);
  for (std::size_t given = sizes.size(); given < max_p; ++given) {
    const std::size_t d = next.top().second;
    next.pop();
    ++sizes[d];
    next.emplace((sizes[d] + 1) / capabilities[d], d);
  }
  return sizes;
}

double longest_seconds(const std::vector<double>& capabilities,
                       const std::vector<std::uint32_t>& sizes) {
  double longest = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d)
    longest = std::max(longest, sizes[d] / capabilities[d]);
  return longest;
}

// The most ESTs that each device may finally have, if the step may be `longer` times the shortest.
std::vector<std::uint32_t> size_limits(const std::vector<double>& capabilities,
                                       const std::vector<std::uint32_t>& balanced, double longer) {
  const double bottleneck = longer * longest_seconds(capabilities, balanced);
  std::vector<std::uint32_t> limits;
  for (std::size_t d = 0; d < balanced.size(); ++d)
    // No size may raise the largest A_d / C_d further. The factor 2 keeps a fast device from taking
    // nearly all ESTs only because an aligned range has fewer partial sums.
    limits.push_back(std::min(2 * balanced[d], ests_within(bottleneck, capabilities[d])));
  return limits;
}

// Chooses sizes 1 <= A_d <= most[d] with the sum max_p and the least cost. It is a dynamic program
// from the last device to the first: row d contains the best choice of device d for every rank at
// which its range may start.
class SizeSearch {
 public:
  SizeSearch(const std::vector<double>& capabilities, const std::vector<std::uint32_t>& most,
             std::uint32_t max_p)
      : capabilities_(capabilities), most_(most), max_p_(max_p) {}

  std::vector<RankRange> run() {
    const std::size_t n = most_.size();
    std::vector<Row> rows(n + 1);
    rows[n].resize(1);
    rows[n][0].cost = Cost{};
    first_.assign(n + 1, max_p_);
    std::uint64_t before = std::accumulate(most_.begin(), most_.end(), std::uint64_t{0});
    std::uint64_t after = 0;
    for (std::size_t d = n; d-- > 0;) {
      before -= most_[d];  // number of ranks that the devices before d can take
      after += most_[d];   // number of ranks that d and later devices can take
      // The range of device d starts at least at d, because each earlier device has one EST, and
      // late enough that d and the later devices can take the rest.
      const auto low = static_cast<std::uint32_t>(
          std::max<std::uint64_t>(d, after < max_p_ ? max_p_ - after : 0));
      // It starts at most where the earlier devices can end, and early enough to leave one EST for
      // each device from d on.
      const auto high =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(before, max_p_ - (n - d)));
      first_[d] = low;
      rows[d].resize(high - low + 1);
      for (std::uint32_t begin = low; begin <= high; ++begin)
        rows[d][begin - low] = choose(d, begin, rows[d + 1]);
    }
    return follow(rows);
  }

 private:
  struct Cost {
    std::uint32_t partial_sums = 0;
    double imbalance = 0;
    auto operator<=>(const Cost&) const = default;
  };
  struct Choice {
    std::optional<Cost> cost;  // nullopt if the remaining ranks cannot be covered from here
    std::uint32_t size = 0;
  };
  using Row = std::vector<Choice>;  // by first rank, from first_[d] on

  // The best size of device d if its ranks start at `begin`. Larger sizes win ties.
  Choice choose(std::size_t d, std::uint32_t begin, const Row& rest) const {
    Choice best;
    for (std::uint32_t size = std::min(most_[d], max_p_ - begin); size >= 1; --size) {
      const std::uint32_t end = begin + size;
      // The next device cannot start there.
      if (end < first_[d + 1] || end - first_[d + 1] >= rest.size()) continue;
      const std::optional<Cost>& after = rest[end - first_[d + 1]].cost;
      if (!after) continue;
      const Cost cost{after->partial_sums + partial_sums({begin, end}, max_p_),
                      after->imbalance + weight(d) * size * size};
      // Strictly less: sizes descend, so of equal costs the larger size stays.
      if (!best.cost || cost < *best.cost) best = {cost, size};
    }
    return best;
  }

  // 1 / C_d relative to the fastest device, in multiples of 2^-20. Sums of squares are then exact,
  // so equal costs are equal in whatever order they are added.
  double weight(std::size_t d) const {
    return std::round(capabilities_[0] / capabilities_[d] * 0x1p20) * 0x1p-20;
  }

  std::vector<RankRange> follow(const std::vector<Row>& rows) const {
    std::vector<RankRange> ranges;
    VirtualRank begin = 0;
    for (std::size_t d = 0; d + 1 < rows.size(); ++d) {
      const Choice& choice = rows[d][begin - first_[d]];
      ES_CHECK(choice.cost.has_value());
      ranges.push_back({begin, begin + choice.size});
      begin += choice.size;
    }
    return ranges;
  }

  const std::vector<double>& capabilities_;
  const std::vector<std::uint32_t>& most_;
  const std::uint32_t max_p_;
  std::vector<std::uint32_t> first_;  // for each row the least rank at which device d can start
};

// The shortest step of divisions whose longest ranges are longer and longer.
std::vector<RankRange> divide(const std::vector<double>& capabilities, std::uint32_t max_p,
                              const WireCost& wire) {
  constexpr int kTrials = 5;
  const std::vector<std::uint32_t> balanced = balanced_sizes(capabilities, max_p);
  std::vector<RankRange> best;
  double best_seconds = 0;
  for (int trial = 0; trial <= kTrials; ++trial) {
    const double longer = 1 + (kLongerStep - 1) * trial / kTrials;
    const std::vector<std::uint32_t> limits = size_limits(capabilities, balanced, longer);
    std::vector<RankRange> ranges = SizeSearch(capabilities, limits, max_p).run();
    if (wire.seconds_per_crossing == 0) return ranges;
    std::vector<std::uint32_t> sizes;
    for (const RankRange& range : ranges) sizes.push_back(range.size());
    const double seconds = longest_seconds(capabilities, sizes) +
                           wire.seconds_per_crossing * mean_crossings(ranges, wire, max_p);
    if (!best.empty() && seconds >= best_seconds) continue;
    best = std::move(ranges);
    best_seconds = seconds;
  }
  return best;
}

}  // namespace

double mean_crossings(std::span<const RankRange> ranges, const WireCost& wire,
                      std::uint32_t max_p) {
  if (wire.hosts.empty()) return 0;
  ES_CHECK(wire.hosts.size() == ranges.size());
  std::vector<SumMember> members;
  for (std::size_t d = 0; d < ranges.size(); ++d) members.push_back({ranges[d], wire.hosts[d]});
  const SumRoutes routes(members, max_p);
  double crossings = 0;
  for (std::uint32_t owner = 0; owner < members.size(); ++owner)
    crossings += routes.crossings(owner);
  return crossings / static_cast<double>(members.size());
}

std::vector<RankRange> assign_ranks(std::span<const double> capabilities, std::uint32_t max_p,
                                    const WireCost& wire) {
  const std::size_t n = capabilities.size();
  ES_CHECK_MSG(n >= 1 && n <= max_p, "every device needs an EST");
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  // Stable, so that equal devices keep the order of the caller, which never changes (placement.h).
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return capabilities[a] > capabilities[b]; });

  std::vector<double> ordered(n);
  for (std::size_t i = 0; i < n; ++i) ordered[i] = capabilities[order[i]];
  WireCost ordered_wire{.hosts = {}, .seconds_per_crossing = wire.seconds_per_crossing};
  for (std::size_t i = 0; i < wire.hosts.size(); ++i)
    ordered_wire.hosts.push_back(wire.hosts[order[i]]);
  const std::vector<RankRange> in_order = divide(ordered, max_p, ordered_wire);
  std::vector<RankRange> ranges(n);
  for (std::size_t i = 0; i < n; ++i) ranges[order[i]] = in_order[i];
  return ranges;
}

std::uint32_t partial_sums(RankRange range, std::uint32_t max_p) {
  ES_CHECK(range.begin <= range.end && range.end <= max_p);
  std::uint32_t nodes = 0;
  for (std::uint64_t at = range.begin; at < range.end; ++nodes) {
    // Finds the largest node that starts here and ends inside of the range. A node that max_p cuts
    // ends at max_p.
    std::uint64_t size = 1;
    // A node of size s starts at a multiple of s. It grows while the larger node also starts here,
    // and ends in the range or is cut by max_p at its end. The last condition stops at the node
    // that max_p cuts, as a larger one would contain the same ranks.
    while (at % (2 * size) == 0 && std::min<std::uint64_t>(at + 2 * size, max_p) <= range.end &&
           at + size < max_p)
      size *= 2;
    at += size;
  }
  return nodes;
}

StayChoice choose_stay(std::span<const DeviceType> current, const DeviceSet& wanted) {
  StayChoice choice;
  choice.join = wanted;
  for (std::size_t i = 0; i < current.size(); ++i) {
    // `join` contains the wanted devices that no worker has taken yet. Earlier workers take first.
    if (choice.join.count_of(current[i]) > 0) {
      choice.join.remove(current[i], 1);
      choice.stay.push_back(i);
    } else {
      choice.leave.push_back(i);
    }
  }
  return choice;
}

}  // namespace es::scheduler
