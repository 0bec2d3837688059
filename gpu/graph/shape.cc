#include "gpu/graph/shape.h"

namespace es::gpu {

ImageShape image_of(const TensorShape& shape) {
  ES_CHECK(is_image(shape));
  return {shape[0], shape[1], shape[2], shape[3]};
}

TensorShape with_extent(TensorShape shape, int axis, std::int64_t size) {
  shape[axis] = size;
  return shape;
}

std::string shape_text(const TensorShape& shape) {
  std::string text = "[";
  for (int axis = 0; axis < shape.rank(); ++axis)
    text += (axis == 0 ? "" : ",") + std::to_string(shape[axis]);
  return text + "]";
}

}  // namespace es::gpu
