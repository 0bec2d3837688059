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

  const float* values(const RunBuffers& buffers) const;
};

// Returns the results of the operator in training: tensors, then gradients, then statistics. A view
// writes nothing. The results of a program with an infinite constant are not listed, because they
// are meant to contain it (scores that are masked with -inf).
std::vector<OpResult> op_results(const Graph& graph, const Op& op);

}  // namespace es::gpu
