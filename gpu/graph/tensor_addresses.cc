#include "gpu/graph/tensor_addresses.h"

#include "gpu/graph/ops/operator.h"

namespace es::gpu {

TensorAddresses::TensorAddresses(const Graph& graph, const MemoryPlan& plan,
                                 const TensorPlaces& places, float* arena,
                                 const std::vector<const float*>& constants)
    : tensors_(graph.tensors.size(), nullptr) {
  // No operator writes to constants, samples or parameters, so the casts here and in bind() are
  // safe.
  for (std::size_t i = 0; i < constants.size(); ++i)
    tensors_[graph.constants[i].tensor] = const_cast<float*>(constants[i]);
  constexpr std::int64_t kOutside = TensorPlaces::kOutside;
  std::vector<std::int64_t> offset(tensors_.size(), kOutside);
  for (std::size_t f = 0; f < graph.inputs.size(); ++f)
    // A mini-batch has its fields one after the other, each with all samples of the batch.
    offset[graph.inputs[f]] = graph.batch * graph.layout.offset(f);
  std::vector<std::int64_t> in_params(tensors_.size(), kOutside);
  for (const Op& op : graph.ops)
    if (op_def(op.kind).in_params) in_params[op.out[0]] = graph.table[op.weight].offset;
  for (std::size_t t = 0; t < tensors_.size(); ++t) {
    // A view has the address of its owner, which may be in the arena, in the mini-batch or a
    // constant. A tensor of the other run has no address.
    const TensorId owner = plan.owner[t];
    if (places.in_arena[t] != kOutside) {
      tensors_[t] = arena + places.in_arena[t];
    } else if (places.in_gradients[t] != kOutside) {
      gradients_.push_back({static_cast<TensorId>(t), places.in_gradients[t]});
    } else if (offset[owner] != kOutside) {
      inputs_.push_back({static_cast<TensorId>(t), offset[owner]});
    } else if (const ParamId param = plan.gradient_of[owner]; param != kNoParam) {
      gradients_.push_back({static_cast<TensorId>(t), graph.table[param].offset});
    } else if (in_params[owner] != kOutside) {
      params_.push_back({static_cast<TensorId>(t), in_params[owner]});
    } else {
      tensors_[t] = tensors_[owner];
    }
  }
}

void TensorAddresses::bind(std::vector<float*>& tensors, const std::vector<Place>& places,
                           const float* start) {
  for (const Place& place : places)
    tensors[place.tensor] = const_cast<float*>(start) + place.offset;
}

void TensorAddresses::bind_inputs(const float* words) {
  bind(tensors_, inputs_, words);
}

void TensorAddresses::bind_params(const float* params) {
  bind(tensors_, params_, params);
}

void TensorAddresses::bind_gradients(float* gradients) {
  bind(tensors_, gradients_, gradients);
}

}  // namespace es::gpu
