#pragma once
// Reshaping of values that are not stored in logical order.
#include <optional>

#include "gpu/graph/shape.h"
#include "gpu/import/lowering.h"

namespace es::gpu {

// Returns an order of the axes of `from` in which no word has to move for the reshape, and which is
// like `order`: axes that become one, or come from one, are neighbours in their logical order, at
// the place of the first of them. So the channels of an image that is reshaped stay the last axis.
AxisOrder reshapable_order(const TensorShape& from, const AxisOrder& order, const TensorShape& to);

// Returns the order of axes in which the reshaped value is stored without a copy; nothing if the
// words have to move. For example, [n,c,h,w] stored as [n,h,w,c] is [n,c,h*w] stored as [n,h*w,c].
std::optional<AxisOrder> reshaped_order(const TensorShape& from, const AxisOrder& order,
                                        const TensorShape& to);

}  // namespace es::gpu
