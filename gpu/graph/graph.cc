#include "gpu/graph/graph.h"

#include "proto/base/check.h"

namespace es::gpu {

const TensorShape& Graph::shape(TensorId id) const {
  ES_CHECK(id >= 0 && id < static_cast<TensorId>(tensors.size()));
  return tensors[static_cast<std::size_t>(id)].shape;
}

}  // namespace es::gpu
