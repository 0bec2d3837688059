#include "scheduler/policy/common/fair_share.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

constexpr int kBandMax = 8;
constexpr int kNoWeight = kBandMax + 1;  // after all siblings

int band_of(double usage, double weight, double usages, double weights) {
  if (weight <= 0) return kNoWeight;
  if (usages <= 0) return 0;
  if (usage <= 0) return -kBandMax;
  const double ratio = usage / weight * (weights / usages);
  return std::clamp(static_cast<int>(std::lround(2 * std::log2(ratio))), -kBandMax, kBandMax);
}

}  // namespace

FairShare::FairShare(const std::vector<Queue>& queues, Seconds half_life)
    : half_life_(half_life), period_(std::clamp(half_life / 100, Seconds(1), Seconds(300))) {
  ES_CHECK(half_life.count() > 0);
  for (const Queue& queue : queues) {
    Node node{.name = queue.name, .weight = queue.weight};
    node.is_leaf = scheduler::is_leaf(queues, queue.name);
    for (std::size_t p = 0; p < queues.size(); ++p)
      if (queues[p].name == queue.parent) node.parent = static_cast<std::int32_t>(p);
    nodes_.push_back(std::move(node));
  }
  rank();
}

void FairShare::advance(Seconds now) {
  const Seconds passed = now - now_;
  if (passed.count() <= 0) return;
  const double factor = std::exp2(-(passed / half_life_));
  for (Node& node : nodes_) node.usage *= factor;
  now_ = now;
}

std::size_t FairShare::index_of(const std::string& name) const {
  const auto at = std::find_if(nodes_.begin(), nodes_.end(),
                               [&](const Node& node) { return node.name == name; });
  return static_cast<std::size_t>(at - nodes_.begin());
}

void FairShare::charge(const std::string& leaf, double device_seconds) {
  std::size_t at = index_of(leaf);
  while (at < nodes_.size()) {
    nodes_[at].usage += device_seconds;
    at = nodes_[at].parent < 0 ? nodes_.size() : static_cast<std::size_t>(nodes_[at].parent);
  }
}

double FairShare::usage(const std::string& queue) const {
  const std::size_t at = index_of(queue);
  return at < nodes_.size() ? nodes_[at].usage : 0;
}

std::uint32_t FairShare::level(const std::string& leaf) const {
  const std::size_t at = index_of(leaf);
  return at < nodes_.size() ? nodes_[at].level : last_level_;
}

std::vector<int> FairShare::bands() const {
  std::map<std::int32_t, std::pair<double, double>> sums;  // by parent: usages and weights
  for (const Node& node : nodes_) {
    if (node.weight <= 0) continue;
    sums[node.parent].first += node.usage;
    sums[node.parent].second += node.weight;
  }
  std::vector<int> bands;
  for (const Node& node : nodes_) {
    const auto& [usages, weights] = sums[node.parent];
    bands.push_back(band_of(node.usage, node.weight, usages, weights));
  }
  return bands;
}

bool FairShare::rank() {
  const std::vector<int> band = bands();
  // The bands from the top down to the leaf.
  std::map<std::vector<int>, std::vector<std::size_t>> by_path;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].is_leaf) continue;
    std::vector<int> path;
    for (auto at = static_cast<std::int32_t>(i); at >= 0;
         at = nodes_[static_cast<std::size_t>(at)].parent)
      path.push_back(band[static_cast<std::size_t>(at)]);
    std::reverse(path.begin(), path.end());
    by_path[std::move(path)].push_back(i);
  }
  bool changed = last_level_ != by_path.size();
  last_level_ = 0;
  for (const auto& [path, leaves] : by_path) {
    for (const std::size_t i : leaves)
      changed = std::exchange(nodes_[i].level, last_level_) != last_level_ || changed;
    ++last_level_;
  }
  return changed;
}

}  // namespace es::scheduler
