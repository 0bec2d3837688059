#pragma once
// The addresses of a program's tensors: in the arena, among the constants, the parameters or their
// gradients, or in the mini-batch.
#include <cstdint>
#include <vector>

#include "gpu/graph/memory_plan.h"

namespace es::gpu {

class TensorAddresses {
 public:
  // `arena` has plan.arena_floats floats. constants[i] points to the words of graph.constants[i].
  // The constructor reads and writes none of this memory. Operators write to the arena and to
  // gradients only.
  TensorAddresses(const Graph& graph, const MemoryPlan& plan, float* arena,
                  const std::vector<const float*>& constants);

  // Sets the mini-batch; `words` is laid out as in Batch.
  void bind_inputs(const float* words);
  // Sets the parameters, in the flat layout.
  void bind_params(const float* params);
  // Sets the gradients of the parameters, in the flat layout.
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
  std::vector<Place> gradients_;  // what is written where a gradient of a parameter belongs
  std::vector<float*> tensors_;
};

}  // namespace es::gpu
