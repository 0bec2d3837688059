#pragma once
// The parts of check_program() (check.h), one topic each.
#include <cstdint>
#include <span>

#include "gpu/import/values.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// --- One node against the entry of its kind (check_node.cc).

// Checks everything that does not depend on shapes: the kind, its version, and the names, types and
// ranges of the attributes.
Status check_attributes(const ModelNode& node, std::size_t index);

// Checks the types of the inputs, and the outputs against the shape rule of the kind. REQUIRES:
// check_attributes() accepts the node, and its value ids are kNoValue or indices of `values`.
Status check_node_shapes(const ModelNode& node, std::size_t index,
                         std::span<const ValueInfo> values);

// --- The further programs of a model, ModelProgram::programs (check_programs.cc).

// REQUIRES: the lists of the model itself were checked. Error (usage): the first violation, as
// check_program(): a program that a model could not have, or a parameter, statistic, state or input
// that the model itself does not have so.
Status check_programs(const ModelProgram& model);

// --- The lists of a program beside its nodes (check_state.cc): names, inputs, parameters,
// statistics, buffers, constants and outputs.

// `values` are those at any batch size. REQUIRES: all value ids are indices of `values`, and each
// value is written once. Error (usage): the first violation.
Status check_state(const ModelProgram& program, std::span<const ValueInfo> values);

}  // namespace es::gpu
