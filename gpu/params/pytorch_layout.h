#pragma once
// Weights in PyTorch's layout: export to, and import from, tensors as a state dict holds them.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/params/param_table.h"
#include "proto/base/result.h"

namespace es::gpu {

struct NamedTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<float> values;  // row-major in `shape`
};

// One parameter between the two layouts; count floats each, `ours` points at the parameter itself.
void to_pytorch(const ParamInfo& param, const float* ours, float* theirs);
void from_pytorch(const ParamInfo& param, const float* theirs, float* ours);

// All parameters of a flat array, then all batch-norm statistics of one EST, in table order.
std::vector<NamedTensor> export_state(const ParamTable& table, const float* flat,
                                      const float* stats);

// Fills `flat` (padding included) and `stats` from tensors in any order; others are ignored.
// Error (usage): a parameter or statistic that is missing or has another shape.
Status import_state(const ParamTable& table, std::span<const NamedTensor> tensors, float* flat,
                    float* stats);

}  // namespace es::gpu
