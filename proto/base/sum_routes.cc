#include "proto/base/sum_routes.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <utility>

#include "proto/base/check.h"

namespace es {

SumRoutes::SumRoutes(std::span<const SumMember> members, std::uint32_t max_p) : max_p_(max_p) {
  ES_CHECK(max_p > 0 && !members.empty());
  std::map<std::string, std::uint32_t> numbers;
  for (const SumMember& member : members) {
    ranks_.push_back(member.ranks);
    const auto next = static_cast<std::uint32_t>(numbers.size());
    hosts_.push_back(numbers.try_emplace(member.host, next).first->second);
  }
  add_nodes(0, std::bit_ceil(std::uint64_t{max_p}));
}

// Adds the node that begins at rank `begin` and has `size` ranks, or fewer where max_p cuts it, and
// all nodes below it down to the maximal ones. Returns its number.
std::uint32_t SumRoutes::add_nodes(std::uint64_t begin, std::uint64_t size) {
  const std::uint64_t end = std::min<std::uint64_t>(begin + size, max_p_);
  for (std::uint32_t member = 0; member < ranks_.size(); ++member) {
    if (begin < ranks_[member].begin || end > ranks_[member].end) continue;
    nodes_.push_back({.ranks = {static_cast<VirtualRank>(begin), static_cast<VirtualRank>(end)},
                      .is_maximal = true,
                      .member = member,
                      .hosts = {hosts_[member]}});
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }
  // A single rank is inside of one range, so the recursion ends.
  ES_CHECK(size > 1);
  const std::uint32_t left = add_nodes(begin, size / 2);
  // Without a right child the sum is that of the left one.
  if (begin + size / 2 >= max_p_) return left;
  return add_inner(left, add_nodes(begin + size / 2, size / 2));
}

std::uint32_t SumRoutes::add_inner(std::uint32_t left, std::uint32_t right) {
  const std::vector<std::uint32_t>& a = nodes_[left].hosts;
  const std::vector<std::uint32_t>& b = nodes_[right].hosts;
  std::vector<std::uint32_t> hosts;
  std::ranges::set_intersection(a, b, std::back_inserter(hosts));
  const bool crosses = hosts.empty();
  if (crosses) {
    // One of the children has to cross, whichever of these hosts adds them.
    ++crossings_;
    std::ranges::set_union(a, b, std::back_inserter(hosts));
  }
  nodes_.push_back({.ranks = {nodes_[left].ranks.begin, nodes_[right].ranks.end},
                    .left = left,
                    .right = right,
                    .crosses = crosses,
                    .hosts = std::move(hosts)});
  return static_cast<std::uint32_t>(nodes_.size() - 1);
}

std::uint32_t SumRoutes::crossings(std::uint32_t owner) const {
  const auto root = static_cast<std::uint32_t>(nodes_.size() - 1);
  return crossings_ + (has(root, hosts_[owner]) ? 0 : 1);
}

bool SumRoutes::has(std::uint32_t node, std::uint32_t host) const {
  return std::ranges::binary_search(nodes_[node].hosts, host);
}

// Whether the owner adds the root itself without another crossing. If both children could be added
// on one other host, only their sum crosses.
bool SumRoutes::is_added_at(std::uint32_t owner) const {
  const Node& root = nodes_.back();
  if (root.is_maximal) return false;
  const bool has_one = has(root.left, hosts_[owner]) || has(root.right, hosts_[owner]);
  return has_one || root.crosses;
}

std::vector<PartialSum> SumRoutes::to(std::uint32_t owner) const {
  const auto root = static_cast<std::uint32_t>(nodes_.size() - 1);
  std::vector<PartialSum> sums;
  PartialSum whole{.ranks = {0, max_p_}, .at = owner, .parts = {}};
  if (is_added_at(owner))
    collect(root, hosts_[owner], owner, whole, sums);
  else
    add_part(root, owner, whole, sums);
  sums.push_back(std::move(whole));
  return sums;
}

// Adds to `sum`, which is made at `host`, what it needs of an inner node that is added there.
void SumRoutes::collect(std::uint32_t node, std::uint32_t host, std::uint32_t owner,
                        PartialSum& sum, std::vector<PartialSum>& sums) const {
  for (const std::uint32_t child : {nodes_[node].left, nodes_[node].right}) {
    if (!nodes_[child].is_maximal && has(child, host))
      collect(child, host, owner, sum, sums);
    else
      add_part(child, owner, sum, sums);
  }
}

// Adds to `sum` the sum of a node that comes from one member.
void SumRoutes::add_part(std::uint32_t node, std::uint32_t owner, PartialSum& sum,
                         std::vector<PartialSum>& sums) const {
  const Node& part = nodes_[node];
  if (part.is_maximal) {
    sum.parts.push_back({part.ranks, part.member});
    return;
  }
  // Owners choose different hosts, so that the work is divided.
  const std::uint32_t at = part.hosts[owner % part.hosts.size()];
  PartialSum partial{.ranks = part.ranks, .at = 0, .parts = {}};
  collect(node, at, owner, partial, sums);
  partial.at = maker(partial, at, owner);
  sum.parts.push_back({partial.ranks, partial.at});
  sums.push_back(std::move(partial));
}

// One of the members at this host that have a part of the sum. There is one: the host was chosen
// because a maximal node below is there, and all nodes in between are added there too.
std::uint32_t SumRoutes::maker(const PartialSum& sum, std::uint32_t host,
                               std::uint32_t owner) const {
  std::vector<std::uint32_t> members;
  for (const PartialSum::Part& part : sum.parts)
    if (hosts_[part.at] == host && ranks_[part.at].begin <= part.ranks.begin &&
        part.ranks.end <= ranks_[part.at].end)
      members.push_back(part.at);
  ES_CHECK(!members.empty());
  return members[owner % members.size()];
}

}  // namespace es
