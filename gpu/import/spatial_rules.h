#pragma once
// Shape rules of kinds that work on values [n,c,spatial...] with one to three spatial axes.
#include <cstdint>
#include <initializer_list>

#include "gpu/import/kind.h"

namespace es::gpu {

constexpr std::int64_t kSpatialMax = 1 << 20;  // of kernels, strides, paddings and sizes

// Error (usage): an attribute does not have one number for each spatial axis of x.
Status check_spatial(const NodeView& node, std::initializer_list<const char*> attributes);

// Error (usage): x has no or too many spatial axes, or an attribute does not fit it.
Status check_spatial_input(const NodeView& node, std::initializer_list<const char*> attributes);

// The shape rule of a kind whose attribute `size` has the spatial extents of the output.
Outputs sized_outputs(const NodeView& node);

}  // namespace es::gpu
