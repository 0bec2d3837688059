#pragma once
// The moves of all operators that only rearrange tensors. Pure functions of shapes. The callers
// have checked that the shapes fit. Every result is simplified.
#include <span>
#include <utility>
#include <vector>

#include "gpu/graph/graph.h"

namespace es::gpu {

// Puts the inputs side by side along the axis. One output.
Move concat_move(std::span<const TensorShape> inputs, int axis);
// Has `parts` outputs of equal size.
Move split_move(const TensorShape& input, int axis, std::int64_t parts);
Move slice_move(const TensorShape& input, int axis, std::int64_t begin, std::int64_t count);
// Element i of the output is element begin + i * step of the input.
Move strided_slice_move(const TensorShape& input, int axis, std::int64_t begin, std::int64_t step,
                        std::int64_t count);
// Writes only the words that come from the input.
Move pad_move(const TensorShape& input, int axis, std::int64_t before, std::int64_t after);
// Axis i of the output is axis order[i] of the input.
TensorShape permuted_shape(const TensorShape& input, std::span<const int> order);
Move permute_move(const TensorShape& input, std::span<const int> order);
// y[i] = x[(i - shift) mod extent]. REQUIRES: 0 <= shift < extent.
Move roll_move(const TensorShape& input, int axis, std::int64_t shift);
// [n,h,w,c] -> [n*(h/s)*(w/s), s*s, 1, c].
ImageShape window_shape(const ImageShape& image, std::int64_t side);
Move window_partition_move(const ImageShape& image, std::int64_t side);
Move upsample2_move(const ImageShape& input);  // [n,h,w,c] -> [n,2h,2w,c]
// The elements of a row (the channels of a pixel) in the order [groups][c/groups] get the order
// [c/groups][groups].
Move channel_shuffle_move(const TensorShape& input, std::int64_t groups);
// Channel j of concat({a, b}) after a shuffle by 2 groups is channel j/2 of a (j even) or of b (j
// odd). The first c of these channels go to output 0, the others to output 1. Both inputs have this
// shape.
Move concat_shuffle_split_move(const TensorShape& input);

// Copies one number to every row of the first output, and to the only element of the second one.
Move scalar_loss_move(std::int64_t rows);

}  // namespace es::gpu
