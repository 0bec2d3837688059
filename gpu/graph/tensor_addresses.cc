#include "gpu/graph/tensor_addresses.h"

namespace es::gpu {

TensorAddresses::TensorAddresses(const Graph& graph, const MemoryPlan& plan, float* arena,
                                 const std::vector<const float*>& constants)
    : tensors_(graph.tensors.size(), nullptr) {
  // No operator writes to memory outside the arena, so the casts here and in bind_inputs() are
  // safe.
  for (std::size_t i = 0; i < constants.size(); ++i)
    tensors_[graph.constants[i].tensor] = const_cast<float*>(constants[i]);
  std::vector<std::int64_t> offset(tensors_.size(), MemoryPlan::kOutside);
  for (std::size_t f = 0; f < graph.inputs.size(); ++f)
    offset[graph.inputs[f]] = graph.batch * graph.layout.offset(f);
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    // A view has the address of its owner, which may be in the arena, in the mini-batch or a
    // constant.
    const TensorId owner = plan.owner[t];
    if (plan.offset[t] != MemoryPlan::kOutside) {
      tensors_[t] = arena + plan.offset[t];
    } else if (offset[owner] != MemoryPlan::kOutside) {
      inputs_.push_back({static_cast<TensorId>(t), offset[owner]});
    } else {
      tensors_[t] = tensors_[owner];
    }
  }
}

void TensorAddresses::bind_inputs(const float* words) {
  for (const Place& place : inputs_)
    tensors_[place.tensor] = const_cast<float*>(words) + place.offset;
}

}  // namespace es::gpu
