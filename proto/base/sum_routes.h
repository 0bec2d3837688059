#pragma once
// The ways of gradients to the worker that needs their sum, with the fewest bytes between hosts.
//
// The tree over virtual ranks fixes which sums are computed (docs/ARITHMETIC.md), but not where: a
// worker that has the sums of both children of a node can add them. A worker begins with the sums
// of the maximal nodes of its ranks. Every other node is added where the fewest sums cross from one
// host to another on the whole way to the owner; this is the least number of changes of a label on
// a tree whose leaves and root are labelled (Fitch 1971), with hosts as labels. The nodes that are
// added on one host, one below the other, are one sum here, made by one worker of the host. So the
// members of one host are added in its shared memory before anything leaves it, and if all are on
// one host, the owner adds all.
//
// Pure functions of values; thread-safe.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "proto/base/ids.h"

namespace es {

struct SumMember {
  RankRange ranks;   // not empty
  std::string host;  // two workers with the same text share memory
};

// A sum over the ranks of one node of the tree, made of the sums of nodes below it.
struct PartialSum {
  struct Part {
    RankRange ranks;
    std::uint32_t at = 0;  // the member that has it: one of its maximal nodes, or its partial sum
    bool operator==(const Part&) const = default;
  };
  RankRange ranks;
  std::uint32_t at = 0;     // the member that makes it
  std::vector<Part> parts;  // in rank order; at least one is a maximal node of `at`, but for the
                            // whole sum
  bool operator==(const PartialSum&) const = default;
};

class SumRoutes {
 public:
  // REQUIRES: the ranges of the members, in any order, cover [0, max_p) exactly; max_p > 0.
  SumRoutes(std::span<const SumMember> members, std::uint32_t max_p);

  // All sums that are made for this owner; a sum comes behind those that it needs, and the last one
  // is that of all ranks at the owner. Its only part may be the sum of all ranks from another
  // member. REQUIRES: owner < number of members.
  std::vector<PartialSum> to(std::uint32_t owner) const;
  // The number of sums that cross from one host to another for this owner. No other choice of
  // places has fewer.
  std::uint32_t crossings(std::uint32_t owner) const;

 private:
  struct Node {
    RankRange ranks;
    std::uint32_t left = 0, right = 0;  // of a node above the maximal ones
    bool is_maximal = false;
    bool crosses = false;      // one child of it crosses, wherever it is added
    std::uint32_t member = 0;  // of a maximal node
    // The hosts at which the node can be added with the fewest crossings below it, ascending.
    std::vector<std::uint32_t> hosts;
  };
  std::uint32_t add_nodes(std::uint64_t begin, std::uint64_t size);
  std::uint32_t add_inner(std::uint32_t left, std::uint32_t right);
  bool has(std::uint32_t node, std::uint32_t host) const;
  bool is_added_at(std::uint32_t owner) const;
  void collect(std::uint32_t node, std::uint32_t host, std::uint32_t owner, PartialSum& sum,
               std::vector<PartialSum>& sums) const;
  void add_part(std::uint32_t node, std::uint32_t owner, PartialSum& sum,
                std::vector<PartialSum>& sums) const;
  std::uint32_t maker(const PartialSum& sum, std::uint32_t host, std::uint32_t owner) const;

  std::uint32_t max_p_;
  std::vector<RankRange> ranks_;      // by member
  std::vector<std::uint32_t> hosts_;  // by member: numbers in order of the first appearance
  std::vector<Node> nodes_;           // children before their parents: the last one is the root
  std::uint32_t crossings_ = 0;       // to an owner at a host of the root
};

}  // namespace es
