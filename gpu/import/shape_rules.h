#pragma once
// Shape arithmetic that the rules of several topics share.
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "gpu/graph/shape.h"
#include "gpu/import/kind.h"
#include "proto/base/result.h"

namespace es::gpu {

// Returns the shape to which both are broadcast, as in PyTorch.
Result<TensorShape> broadcast(const TensorShape& a, const TensorShape& b);
// Returns whether `from` can be broadcast to `to`.
bool broadcasts_to(const TensorShape& from, const TensorShape& to);

// The axes of a list of integers. Error (usage): one is outside [0, rank), or is named twice.
Result<std::vector<int>> axes_of(const std::vector<std::int64_t>& list, int rank,
                                 const char* attribute);
// Error (usage): the axis is outside [0, rank).
Status check_axis(std::int64_t axis, int rank);

// Returns the shape without the axes, or with 1 in their place.
TensorShape reduced(const TensorShape& shape, const std::vector<int>& axes, bool keepdim);

// Error (usage): a list has another length than `count`.
Status check_length(const std::vector<std::int64_t>& list, int count, const char* attribute);

// --- Rules of kinds that work on values [n,c,spatial...] with one to three spatial axes.

constexpr std::int64_t kSpatialMax = 1 << 20;  // of kernels, strides, paddings and sizes

// Error (usage): an attribute does not have one number for each spatial axis of x.
Status check_spatial(const NodeView& node, std::initializer_list<const char*> attributes);

// Error (usage): x has no or too many spatial axes, or an attribute does not fit it.
Status check_spatial_input(const NodeView& node, std::initializer_list<const char*> attributes);

// The shape rule of a kind whose attribute `size` has the spatial extents of the output.
Outputs sized_outputs(const NodeView& node);

}  // namespace es::gpu
