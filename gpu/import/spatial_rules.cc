#include "gpu/import/spatial_rules.h"

#include "gpu/import/shape_rules.h"

namespace es::gpu {

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
