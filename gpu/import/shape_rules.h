#pragma once
// Shape arithmetic that the rules of several topics share.
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/graph/shape.h"
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

}  // namespace es::gpu
