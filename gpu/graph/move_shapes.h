#pragma once
// The moves of all operators that only rearrange tensors. Pure functions of shapes. The callers
// have checked that the shapes fit. Every result is simplified.
#include <span>
#include <utility>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::gpu {

enum class Axis { kN, kH, kW, kC };

std::int64_t extent(const TensorShape& shape, Axis axis);
TensorShape with_extent(TensorShape shape, Axis axis, std::int64_t size);

// Puts the inputs side by side along the axis. One output.
Move concat_move(std::span<const TensorShape> inputs, Axis axis);
// Has `parts` outputs of equal size.
Move split_move(const TensorShape& input, Axis axis, std::int64_t parts);
Move slice_move(const TensorShape& input, Axis axis, std::int64_t begin, std::int64_t count);
// Writes only the words that come from the input.
Move pad_move(const TensorShape& input, Axis axis, std::int64_t before, std::int64_t after);
// Dimension i of the output is dimension order[i] of the input.
TensorShape permuted_shape(const TensorShape& input, std::span<const Axis> order);
Move permute_move(const TensorShape& input, std::span<const Axis> order);
// y[i] = x[(i - shift) mod extent]. REQUIRES: 0 <= shift < extent.
Move roll_move(const TensorShape& input, Axis axis, std::int64_t shift);
// [n,h,w,c] -> [n*(h/s)*(w/s), s*s, 1, c].
TensorShape window_shape(const TensorShape& image, std::int64_t side);
Move window_partition_move(const TensorShape& image, std::int64_t side);
Move upsample2_move(const TensorShape& input);  // [n,h,w,c] -> [n,2h,2w,c]
// Channels in the order [groups][c/groups] get the order [c/groups][groups].
Move channel_shuffle_move(const TensorShape& input, std::int64_t groups);
// Channel j of concat({a, b}) after a shuffle by 2 groups is channel j/2 of a (j even) or of b (j
// odd). The first c of these channels go to output 0, the others to output 1. Both inputs have this
// shape.
Move concat_shuffle_split_move(const TensorShape& input);

}  // namespace es::gpu
