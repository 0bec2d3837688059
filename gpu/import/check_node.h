#pragma once
// Checks one node against the entry of its kind.
#include <cstdint>
#include <span>

#include "gpu/import/values.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// Checks everything that does not depend on shapes: the kind, its version, and the names, types and
// ranges of the attributes.
Status check_attributes(const ModelNode& node, std::size_t index);

// Checks the types of the inputs, and the outputs against the shape rule of the kind. REQUIRES:
// check_attributes() accepts the node, and its value ids are kNoValue or indices of `values`.
Status check_node_shapes(const ModelNode& node, std::size_t index,
                         std::span<const ValueInfo> values);

}  // namespace es::gpu
