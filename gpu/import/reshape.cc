#include "gpu/import/reshape.h"

#include <algorithm>
#include <vector>

namespace es::gpu {
namespace {

// Axes [from_begin, from_end) of one shape have the elements of [to_begin, to_end) of the other.
struct Group {
  int from_begin, from_end, to_begin, to_end;
};

// Divides both shapes into the smallest groups of neighbouring axes with equal products. Axes with
// one element belong to the group that ends before them, so only the first group can have one
// element. It stays in front, where the axis of the samples is: a mini-batch of one sample is then
// stored as a larger one.
std::vector<Group> groups_of(const TensorShape& from, const TensorShape& to) {
  std::vector<Group> groups;
  int i = 0, j = 0;
  while (i < from.rank() || j < to.rank()) {
    Group group{i, i, j, j};
    std::int64_t x = 1, y = 1;
    const auto take = [](const TensorShape& shape, int& axis, std::int64_t& product) {
      product *= shape[axis++];
    };
    if (i < from.rank()) take(from, i, x);
    if (j < to.rank()) take(to, j, y);
    // The counts of both shapes are equal, so the products meet at the end of the shapes at the
    // latest.
    while (x != y) x < y ? take(from, i, x) : take(to, j, y);
    while (i < from.rank() && from[i] == 1) ++i;
    while (j < to.rank() && to[j] == 1) ++j;
    group.from_end = i;
    group.to_end = j;
    groups.push_back(group);
  }
  return groups;
}

// Returns the group that contains an axis of the shape before the reshape.
std::size_t group_with(const std::vector<Group>& groups, int axis) {
  // The first group that ends behind the axis contains it, because groups ascend without gaps.
  return static_cast<std::size_t>(
      std::ranges::find_if(groups, [&](const Group& group) { return axis < group.from_end; }) -
      groups.begin());
}

bool one_element(const TensorShape& from, const Group& group) {
  return from.count(group.from_begin, group.from_end) == 1;
}

}  // namespace

AxisOrder reshapable_order(const TensorShape& from, const AxisOrder& order, const TensorShape& to) {
  const std::vector<Group> groups = groups_of(from, to);
  AxisOrder result;
  std::vector<bool> done(groups.size(), false);
  const auto append = [&](std::size_t g) {
    if (done[g]) return;
    done[g] = true;
    for (int axis = groups[g].from_begin; axis < groups[g].from_end; ++axis) result.push_back(axis);
  };
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (one_element(from, groups[g])) append(g);
  for (const int axis : order)
    if (from[axis] > 1) append(group_with(groups, axis));
  return result;
}

std::optional<AxisOrder> reshaped_order(const TensorShape& from, const AxisOrder& order,
                                        const TensorShape& to) {
  if (from.count() != to.count()) return std::nullopt;
  const std::vector<Group> groups = groups_of(from, to);
  AxisOrder result;
  const auto append = [&](const Group& group) {
    for (int axis = group.to_begin; axis < group.to_end; ++axis) result.push_back(axis);
  };
  for (const Group& group : groups)
    if (one_element(from, group)) append(group);
  // The long axes of a group must be neighbours in memory, in their logical order.
  std::vector<int> memory;
  for (const int axis : order)
    if (from[axis] > 1) memory.push_back(axis);
  for (std::size_t at = 0; at < memory.size();) {
    const std::size_t g = group_with(groups, memory[at]);
    for (int axis = groups[g].from_begin; axis < groups[g].from_end; ++axis) {
      if (from[axis] == 1) continue;
      // An axis of another group lies between, or the axes of this one are in another order: the
      // words would have to move.
      if (at == memory.size() || memory[at] != axis) return std::nullopt;
      ++at;
    }
    append(groups[g]);
  }
  return result;
}

}  // namespace es::gpu
