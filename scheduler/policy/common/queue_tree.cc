#include "scheduler/policy/common/queue_tree.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

struct Child {
  std::uint32_t* has = nullptr;
  std::uint32_t most = 0;
  double weight = 0;
  std::uint32_t extra = 0;  // beyond its guarantee
};

// Gives `rest` devices of one type to the children, in the ratio of their weights. Returns how many
// none of them wants.
std::uint32_t share_by_weight(std::vector<Child> children, std::uint32_t rest) {
  const auto is_full = [](const Child& c) { return c.weight <= 0 || *c.has >= c.most; };
  const auto give = [&rest](Child& c, std::uint32_t count) {
    *c.has += count;
    c.extra += count;
    rest -= count;
  };
  // Whole parts, until they are less than one device. Each round but the last one fills a child or
  // leaves fewer devices than there are children.
  while (rest > 0) {
    std::erase_if(children, is_full);
    double weights = 0;
    for (const Child& c : children) weights += c.weight;
    const std::uint32_t before = rest;
    for (Child& c : children) {
      const double part = std::floor(before * (c.weight / weights));
      give(c, std::min({rest, c.most - *c.has, static_cast<std::uint32_t>(part)}));
    }
    if (rest == before) break;
  }
  // The last ones, to the child that then has the least for its weight; of equal ones to the first.
  while (rest > 0) {
    std::erase_if(children, is_full);
    const auto next =
        std::min_element(children.begin(), children.end(), [](const Child& a, const Child& b) {
          return (a.extra + 1) * b.weight < (b.extra + 1) * a.weight;
        });
    if (next == children.end()) return rest;
    give(*next, 1);
  }
  return rest;
}

}  // namespace

QueueTree::QueueTree(const std::vector<Queue>& queues, const std::vector<DeviceType>& types)
    : types_(types.size()) {
  nodes_.resize(queues.size() + 1);
  for (std::uint32_t i = 0; i < queues.size(); ++i) {
    const Queue& queue = queues[i];
    Node& node = nodes_[i];
    node.name = queue.name;
    node.weight = queue.weight;
    node.tier = queue.tier;
    for (std::uint32_t p = 0; p < queues.size(); ++p)
      if (queues[p].name == queue.parent) node.parent = static_cast<std::int32_t>(p);
    (node.parent == kTop ? top_ : nodes_[static_cast<std::size_t>(node.parent)].children)
        .push_back(i);
    for (const DeviceType& type : types) {
      const std::uint32_t guarantee = queue.guarantee.count_of(type);
      const auto borrow = queue.borrow.find(type);
      node.guarantee.push_back(guarantee);
      node.limit.push_back(borrow == queue.borrow.end()
                               ? kNoLimit
                               : guarantee + std::min(borrow->second, kNoLimit - guarantee));
    }
  }
  nodes_.back().guarantee.assign(types_, 0);
  nodes_.back().limit.assign(types_, kNoLimit);
  parents_first_ = top_;
  for (std::size_t i = 0; i < parents_first_.size(); ++i) {
    // One by one: g++ 14 has a false warning for an insertion of the whole list.
    for (const std::uint32_t child : nodes_[parents_first_[i]].children)
      parents_first_.push_back(child);
  }
  nodes_.back().reach = nodes_.back().limit;
  for (const std::uint32_t i : parents_first_) {
    Node& node = nodes_[i];
    node.reach = node.limit;
    for (std::size_t t = 0; node.parent != kTop && t < types_; ++t)
      node.reach[t] =
          std::min(node.reach[t], nodes_[static_cast<std::size_t>(node.parent)].reach[t]);
  }
}

std::uint32_t QueueTree::index_of(const std::string& name) const {
  for (std::uint32_t i = 0; i < none(); ++i)
    if (nodes_[i].name == name) return i;
  return none();
}

std::vector<Counts> QueueTree::entitled(std::vector<Counts> demand, const Counts& supply) const {
  std::vector<Counts> result(size(), Counts(types_, 0));
  // What each queue wants is at most its limit, and that of an inner queue is the sum of what its
  // children want. The deepest queues are last.
  for (auto at = parents_first_.rbegin(); at != parents_first_.rend(); ++at) {
    const Node& node = nodes_[*at];
    for (std::size_t t = 0; t < types_; ++t) {
      std::uint32_t& wanted = demand[*at][t];
      wanted = std::min(wanted, node.limit[t]);
      if (node.parent == kTop) continue;
      std::uint32_t& above = demand[static_cast<std::size_t>(node.parent)][t];
      above += std::min(wanted, kNoLimit - above);
    }
  }
  share(top_, supply, demand, result);
  for (const std::uint32_t i : parents_first_) share(nodes_[i].children, result[i], demand, result);
  return result;
}

// Divides the devices of a queue among its children.
void QueueTree::share(const std::vector<std::uint32_t>& children, const Counts& amount,
                      const std::vector<Counts>& wanted, std::vector<Counts>& result) const {
  for (std::size_t t = 0; t < types_; ++t) {
    std::map<std::uint32_t, std::vector<Child>, std::greater<>> tiers;
    std::uint32_t rest = amount[t];
    for (const std::uint32_t i : children) {
      const std::uint32_t own = std::min(nodes_[i].guarantee[t], wanted[i][t]);
      result[i][t] = own;
      rest -= std::min(rest, own);
      tiers[nodes_[i].tier].push_back({&result[i][t], wanted[i][t], nodes_[i].weight, 0});
    }
    for (auto& [tier, shares] : tiers) rest = share_by_weight(std::move(shares), rest);
  }
}

QueueUse::QueueUse(const QueueTree& tree) : tree_(&tree) {
  for (std::uint32_t i = 0; i < tree.size(); ++i)
    used_.emplace_back(tree.guarantee(i).size(), std::uint32_t{0});
}

void QueueUse::add(std::uint32_t leaf, std::span<const std::uint32_t> counts) {
  for (auto at = static_cast<std::int32_t>(leaf); at != QueueTree::kTop;
       at = tree_->parent(static_cast<std::uint32_t>(at)))
    for (std::size_t t = 0; t < counts.size(); ++t)
      used_[static_cast<std::size_t>(at)][t] += counts[t];
}

void QueueUse::remove(std::uint32_t leaf, std::span<const std::uint32_t> counts) {
  for (auto at = static_cast<std::int32_t>(leaf); at != QueueTree::kTop;
       at = tree_->parent(static_cast<std::uint32_t>(at)))
    for (std::size_t t = 0; t < counts.size(); ++t) {
      std::uint32_t& used = used_[static_cast<std::size_t>(at)][t];
      ES_CHECK(used >= counts[t]);
      used -= counts[t];
    }
}

std::uint32_t QueueUse::room(std::uint32_t leaf, std::size_t type, std::uint32_t without) const {
  std::uint32_t room = QueueTree::kNoLimit;
  for (auto at = static_cast<std::int32_t>(leaf); at != QueueTree::kTop;
       at = tree_->parent(static_cast<std::uint32_t>(at))) {
    const std::uint32_t limit = tree_->limit(static_cast<std::uint32_t>(at))[type];
    if (limit == QueueTree::kNoLimit) continue;
    const std::uint32_t used = used_[static_cast<std::size_t>(at)][type] - without;
    room = std::min(room, limit - std::min(limit, used));
  }
  return room;
}

bool QueueUse::allows(std::uint32_t leaf, std::span<const std::uint32_t> counts) const {
  for (std::size_t t = 0; t < counts.size(); ++t)
    if (counts[t] > 0 && counts[t] > room(leaf, t)) return false;
  return true;
}

}  // namespace es::scheduler
