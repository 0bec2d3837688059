#pragma once
// Checks the lists of a program beside its nodes: names, inputs, parameters, statistics, buffers,
// constants and outputs.
#include <span>

#include "gpu/import/values.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// `values` are those at any batch size. REQUIRES: all value ids are indices of `values`, and each
// value is written once. Error (usage): the first violation.
Status check_state(const ModelProgram& program, std::span<const ValueInfo> values);

}  // namespace es::gpu
