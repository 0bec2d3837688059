#pragma once
// Where the tensors of a program lie: in the arena, among the constants, in the mini-batch.
#include <cstdint>
#include <vector>

#include "gpu/graph/memory_plan.h"

namespace es::gpu {

class TensorAddresses {
 public:
  // `arena` has plan.arena_floats floats; constants[i] are the words of graph.constants[i]. Nothing
  // is read or written here. Operators write to the arena only.
  TensorAddresses(const Graph& graph, const MemoryPlan& plan, float* arena,
                  const std::vector<const float*>& constants);

  // The mini-batch: `words` as in Batch.
  void bind_inputs(const float* words);

  float* const* data() const { return tensors_.data(); }
  float* operator[](TensorId t) const { return tensors_[static_cast<std::size_t>(t)]; }

 private:
  struct Place {
    TensorId tensor;
    std::int64_t offset;  // in the mini-batch
  };
  std::vector<Place> inputs_;  // and views of them
  std::vector<float*> tensors_;
};

}  // namespace es::gpu
