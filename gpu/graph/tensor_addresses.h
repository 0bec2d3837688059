#pragma once
// The addresses of a program's tensors in a local step or in an evaluation: in the arena, in the
// gradient array, among the constants or the parameters, or in the mini-batch.
#include <cstdint>
#include <vector>

#include "gpu/graph/memory_plan.h"

namespace es::gpu {

class TensorAddresses {
 public:
  // `places` are plan.step or plan.evaluation. `arena` has plan.arena_floats floats. constants[i]
  // points to the words of graph.constants[i]. The constructor reads and writes none of this
  // memory. Operators write to the arena and to the gradient array only.
  TensorAddresses(const Graph& graph, const MemoryPlan& plan, const TensorPlaces& places,
                  float* arena, const std::vector<const float*>& constants);

  // Sets the mini-batch; `words` is laid out as in Batch.
  void bind_inputs(const float* words);
  // Sets the parameters, in the flat layout.
  void bind_params(const float* params);
  // Sets the array for the gradients of the parameters, in the flat layout.
  void bind_gradients(float* gradients);

  float* const* data() const { return tensors_.data(); }
  float* operator[](TensorId t) const { return tensors_[static_cast<std::size_t>(t)]; }

 private:
  struct Place {
    TensorId tensor;
    std::int64_t offset;  // floats from the start of the mini-batch, the parameters or gradients
  };
  static void bind(std::vector<float*>& tensors, const std::vector<Place>& places,
                   const float* start);

  std::vector<Place> inputs_;     // the inputs and views of them
  std::vector<Place> params_;     // the parameters that are tensors, and views of them
  std::vector<Place> gradients_;  // what is written to the gradient array
  std::vector<float*> tensors_;
};

}  // namespace es::gpu
