#pragma once
// Lists the runs of floats that an operator writes, in which values that are not finite are looked
// for.
#include <cstdint>
#include <vector>

#include "gpu/graph/op_run.h"

namespace es::gpu {

struct OpResult {
  enum class Place { kTensor, kGradient, kStatistic };
  Place place = Place::kTensor;
  TensorId tensor = kNoTensor;  // kTensor
  ParamId param = kNoParam;     // kGradient: the parameter
  std::int64_t offset = 0;  // kGradient: in the flat layout; kStatistic: in the EST's statistics
  std::int64_t count = 0;
  bool bf16 = false;  // kTensor: the values are stored as bf16

  const float* values(const RunBuffers& buffers) const;
  // Returns whether one of the values is infinite or NaN.
  bool any_non_finite(const RunBuffers& buffers, const KernelTable& kernels) const;
};

// Returns which tensors only an evaluation writes: outputs of operators, and views of them.
std::vector<bool> evaluation_tensors(const Graph& graph);

// Returns, for each operator, its results in training: tensors, then gradients, then statistics. A
// view writes nothing.
//
// Tensors that may be infinite on purpose are not listed. Models mask scores with -inf or with the
// smallest number, and add several masks. Such elements come from constants above half of the
// largest number, and pass through element-wise operators and moves. A NaN that is hidden this way
// is found in the loss, or in the sums of the gradients. What only converts numbers between fp32
// and bf16 is not listed either, because a finite number stays finite (bf16.h).
std::vector<std::vector<OpResult>> op_results(const Graph& graph);

}  // namespace es::gpu
