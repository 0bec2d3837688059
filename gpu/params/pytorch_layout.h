#pragma once
// Weights in PyTorch's layout: export to, and import from, tensors of a state dict.
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
  std::vector<float> values;  // row-major in `shape`; integers of a state as in StatInfo::dtype
};

// Converts one parameter between the two layouts. Both arrays have param.count floats; `ours`,
// the one in the layout of EasyScale, points to the parameter itself, not to the flat array.
void to_pytorch(const ParamInfo& param, const float* ours, float* theirs);
void from_pytorch(const ParamInfo& param, const float* theirs, float* ours);

// Returns all parameters of a flat array, then all statistics and states of one EST, in table
// order.
std::vector<NamedTensor> export_state(const ParamTable& table, const float* flat,
                                      const float* stats);

// Fills `flat` (padding included) and `stats` from tensors in any order. Other tensors are ignored.
// Error (usage): a parameter or statistic is missing or has another shape.
Status import_state(const ParamTable& table, std::span<const NamedTensor> tensors, float* flat,
                    float* stats);

}  // namespace es::gpu
