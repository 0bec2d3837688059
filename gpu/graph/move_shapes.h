#pragma once
// The moves of the operators that only rearrange tensors. Pure functions of shapes; the callers
// have checked that the shapes fit. Every result is simplified.
#include <span>
#include <utility>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::gpu {

enum class Axis { kN, kH, kW, kC };

std::int64_t extent(const TensorShape& shape, Axis axis);
TensorShape with_extent(TensorShape shape, Axis axis, std::int64_t size);

// Inputs side by side along the axis; one output.
Move concat_move(std::span<const TensorShape> inputs, Axis axis);
// `parts` equal outputs.
Move split_move(const TensorShape& input, Axis axis, std::int64_t parts);
Move slice_move(const TensorShape& input, Axis axis, std::int64_t begin, std::int64_t count);
// Writes only what comes from the input.
Move pad_move(const TensorShape& input, Axis axis, std::int64_t before, std::int64_t after);
// Dimension i of the output is dimension order[i] of the input.
TensorShape permuted_shape(const TensorShape& input, std::span<const Axis> order);
Move permute_move(const TensorShape& input, std::span<const Axis> order);
// 0 <= shift < extent: y[i] = x[(i - shift) mod extent].
Move roll_move(const TensorShape& input, Axis axis, std::int64_t shift);
// [n,h,w,c] -> [n*(h/s)*(w/s), s*s, 1, c].
TensorShape window_shape(const TensorShape& image, std::int64_t side);
Move window_partition_move(const TensorShape& image, std::int64_t side);
Move upsample2_move(const TensorShape& input);  // [n,h,w,c] -> [n,2h,2w,c]
// Channels as [groups][c/groups] become [c/groups][groups].
Move channel_shuffle_move(const TensorShape& input, std::int64_t groups);
// Channel j of concat({a, b}) shuffled by 2 groups is channel j/2 of a (j even) or b (j odd). The
// first c of them go to output 0, the rest to output 1. Both inputs have this shape.
Move concat_shuffle_split_move(const TensorShape& input);

}  // namespace es::gpu
