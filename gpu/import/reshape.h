#pragma once
// Reshaping of values that are not stored in logical order.
#include <optional>

#include "gpu/graph/shape.h"
#include "gpu/import/lowering.h"

namespace es::gpu {

// Returns the order of axes in which the reshaped value is stored without a copy; nothing if the
// words have to move. For example, [n,c,h,w] stored as [n,h,w,c] is [n,c,h*w] stored as [n,h*w,c].
std::optional<AxisOrder> reshaped_order(const TensorShape& from, const AxisOrder& order,
                                        const TensorShape& to);

}  // namespace es::gpu
