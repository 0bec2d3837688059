#include "gpu/import/shape_rules.h"

#include <algorithm>

namespace es::gpu {

Result<TensorShape> broadcast(const TensorShape& a, const TensorShape& b) {
  const int rank = std::max(a.rank(), b.rank());
  TensorShape shape;
  for (int axis = 0; axis < rank; ++axis) {
    // Shapes are aligned at the last axis, and a missing axis counts as 1.
    const int in_a = axis - (rank - a.rank()), in_b = axis - (rank - b.rank());
    const std::int64_t x = in_a < 0 ? 1 : a[in_a], y = in_b < 0 ? 1 : b[in_b];
    if (x != y && x != 1 && y != 1)
      return usage_error("shapes " + shape_text(a) + " and " + shape_text(b) +
                         " cannot be broadcast to each other");
    shape.append(x == 1 ? y : x);
  }
  return shape;
}

bool broadcasts_to(const TensorShape& from, const TensorShape& to) {
  const Result<TensorShape> both = broadcast(from, to);
  // `from` fits if it adds nothing to `to`.
  return both.ok() && *both == to;
}

Status check_axis(std::int64_t axis, int rank) {
  if (axis >= 0 && axis < rank) return {};
  return usage_error("axis " + std::to_string(axis) + " is outside a value of rank " +
                     std::to_string(rank));
}

Result<std::vector<int>> axes_of(const std::vector<std::int64_t>& list, int rank,
                                 const char* attribute) {
  std::vector<int> axes;
  for (const std::int64_t axis : list) {
    ES_RETURN_IF_ERROR(check_axis(axis, rank));
    if (std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end())
      return usage_error(std::string(attribute) + " names axis " + std::to_string(axis) + " twice");
    axes.push_back(static_cast<int>(axis));
  }
  return axes;
}

TensorShape reduced(const TensorShape& shape, const std::vector<int>& axes, bool keepdim) {
  TensorShape out;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const bool gone = std::find(axes.begin(), axes.end(), axis) != axes.end();
    if (!gone) out.append(shape[axis]);
    if (gone && keepdim) out.append(1);
  }
  return out;
}

Status check_length(const std::vector<std::int64_t>& list, int count, const char* attribute) {
  if (static_cast<int>(list.size()) == count) return {};
  return usage_error(std::string(attribute) + " has " + std::to_string(list.size()) +
                     " numbers: allowed are " + std::to_string(count));
}

Status check_spatial(const NodeView& node, std::initializer_list<const char*> attributes) {
  for (const char* name : attributes)
    ES_RETURN_IF_ERROR(check_length(node.integers(name), node.shape().rank() - 2, name));
  return {};
}

Status check_spatial_input(const NodeView& node, std::initializer_list<const char*> attributes) {
  // Lines, images and volumes: the lowering has no more than three spatial axes.
  if (node.shape().rank() < 3 || node.shape().rank() > 5)
    return usage_error("x " + shape_text(node.shape()) +
                       " must be [n,c,...] with 1 to 3 spatial axes");
  return check_spatial(node, attributes);
}

Outputs sized_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_spatial_input(node, {"size"}));
  TensorShape y{node.shape()[0], node.shape()[1]};
  for (const std::int64_t extent : node.integers("size")) y.append(extent);
  return one_output(ValueType::kF32, y);
}

}  // namespace es::gpu
