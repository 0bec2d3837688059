#include "gpu/graph/move_shapes.h"

#include <initializer_list>

namespace es::gpu {
namespace {

// A copy has one dimension for each axis.
static_assert(kMoveRank >= static_cast<std::size_t>(kRankMax));

// Returns the distance in words between neighbours along the axis.
std::int64_t stride(const TensorShape& shape, int axis) {
  return shape.count(axis + 1, shape.rank());
}

// Returns the dimension of a copy that stands for this axis. The last axis is the last dimension.
std::size_t dimension(const TensorShape& shape, int axis) {
  return kMoveRank - static_cast<std::size_t>(shape.rank() - axis);
}

// Returns a copy whose last dimensions are those of `box`. The caller sets offsets and strides.
BlockCopy dimensions_of(const TensorShape& box) {
  BlockCopy copy;
  for (int axis = 0; axis < box.rank(); ++axis) copy.size[dimension(box, axis)] = box[axis];
  return copy;
}

// Copies the box of shape `box` from the source to the target. It begins at position `from` of the
// source's axis and at position `to` of the target's axis, and at 0 along all others.
BlockCopy box_copy(const TensorShape& box, int axis, const TensorShape& source, std::int64_t from,
                   const TensorShape& target, std::int64_t to) {
  BlockCopy copy = dimensions_of(box);
  copy.source_offset = from * stride(source, axis);
  copy.target_offset = to * stride(target, axis);
  for (int d = 0; d < box.rank(); ++d) {
    copy.source_stride[dimension(box, d)] = stride(source, d);
    copy.target_stride[dimension(box, d)] = stride(target, d);
  }
  return copy;
}

struct Dimension {
  std::int64_t size, source_stride, target_stride;
};

// Returns a copy with these dimensions, the innermost last.
BlockCopy copy_of(std::initializer_list<Dimension> dimensions) {
  BlockCopy copy;
  std::size_t d = kMoveRank - dimensions.size();
  for (const Dimension& dimension : dimensions) {
    copy.size[d] = dimension.size;
    copy.source_stride[d] = dimension.source_stride;
    copy.target_stride[d++] = dimension.target_stride;
  }
  return copy;
}

}  // namespace

Move concat_move(std::span<const TensorShape> inputs, int axis) {
  std::int64_t total = 0;
  for (const TensorShape& s : inputs) total += s[axis];
  const TensorShape output = with_extent(inputs[0], axis, total);
  Move move;
  std::int64_t begin = 0;
  for (const TensorShape& s : inputs) {
    BlockCopy copy = box_copy(s, axis, s, 0, output, begin);
    copy.source = static_cast<std::int32_t>(move.size());
    move.push_back(simplified(copy));
    begin += s[axis];
  }
  return move;
}

Move split_move(const TensorShape& input, int axis, std::int64_t parts) {
  const std::int64_t size = input[axis] / parts;
  Move move;
  for (std::int64_t p = 0; p < parts; ++p) {
    BlockCopy copy = slice_move(input, axis, p * size, size)[0];
    copy.target = static_cast<std::int32_t>(p);
    move.push_back(copy);
  }
  return move;
}

Move slice_move(const TensorShape& input, int axis, std::int64_t begin, std::int64_t count) {
  const TensorShape output = with_extent(input, axis, count);
  return {simplified(box_copy(output, axis, input, begin, output, 0))};
}

Move strided_slice_move(const TensorShape& input, int axis, std::int64_t begin, std::int64_t step,
                        std::int64_t count) {
  const TensorShape output = with_extent(input, axis, count);
  BlockCopy copy = box_copy(output, axis, input, begin, output, 0);
  // A negative step gives a negative stride: the copy walks backwards from `begin`.
  copy.source_stride[dimension(output, axis)] *= step;
  return {simplified(copy)};
}

Move pad_move(const TensorShape& input, int axis, std::int64_t before, std::int64_t after) {
  const TensorShape output = with_extent(input, axis, before + input[axis] + after);
  // A move writes +0 to the words that no copy writes, so the padding needs no copy.
  return {simplified(box_copy(input, axis, input, 0, output, before))};
}

TensorShape permuted_shape(const TensorShape& input, std::span<const int> order) {
  TensorShape output;
  for (const int axis : order) output.append(input[axis]);
  return output;
}

Move permute_move(const TensorShape& input, std::span<const int> order) {
  const TensorShape output = permuted_shape(input, order);
  BlockCopy copy = dimensions_of(output);
  for (int axis = 0; axis < output.rank(); ++axis) {
    copy.source_stride[dimension(output, axis)] =
        stride(input, order[static_cast<std::size_t>(axis)]);
    copy.target_stride[dimension(output, axis)] = stride(output, axis);
  }
  return {simplified(copy)};
}

Move roll_move(const TensorShape& input, int axis, std::int64_t shift) {
  const std::int64_t size = input[axis];
  const TensorShape wrapped = with_extent(input, axis, shift);
  const TensorShape rest = with_extent(input, axis, size - shift);
  // A roll is two copies: the part that stays in order, and the part that wraps around.
  Move move{simplified(box_copy(rest, axis, input, 0, input, shift))};
  if (shift > 0) move.push_back(simplified(box_copy(wrapped, axis, input, size - shift, input, 0)));
  return move;
}

// A window is a sequence of side * side tokens, and the windows of an image come row by row.
ImageShape window_shape(const ImageShape& image, std::int64_t side) {
  return {image.n * (image.h / side) * (image.w / side), side * side, 1, image.c};
}

// The dimensions are: rows of windows in all images, windows of a row, rows of a window, columns of
// a window, channels. A row of windows has side * w * c words in the image.
Move window_partition_move(const ImageShape& image, std::int64_t side) {
  const std::int64_t rows = image.n * (image.h / side), columns = image.w / side, c = image.c;
  const std::int64_t window = side * side * c;
  return {simplified(copy_of({{rows, side * image.w * c, columns * window},
                              {columns, side * c, window},
                              {side, image.w * c, side * c},
                              {side, c, c},
                              {c, 1, 1}}))};
}

// The two dimensions of size 2 have stride 0 in the source: every pixel is read for two rows and
// two columns. An input row becomes two output rows of twice its length, so input rows are 4 row
// lengths apart in the output.
Move upsample2_move(const ImageShape& input) {
  const std::int64_t row = input.w * input.c, c = input.c;
  return {simplified(copy_of({{input.n * input.h, row, 4 * row},
                              {2, 0, 2 * row},
                              {input.w, c, 2 * c},
                              {2, 0, c},
                              {c, 1, 1}}))};
}

// Channel g * size + i of the input becomes channel i * groups + g of the output.
Move channel_shuffle_move(const TensorShape& input, std::int64_t groups) {
  const std::int64_t c = input.row(), size = c / groups;
  return {simplified(copy_of({{input.rows(), c, c}, {groups, size, 1}, {size, 1, groups}}))};
}

Move concat_shuffle_split_move(const TensorShape& input) {
  const std::int64_t c = input.row();
  Move move;
  for (std::int32_t target = 0; target < 2; ++target) {
    for (std::int32_t source = 0; source < 2; ++source) {
      // The shuffled channels target * c + j, j in [0, c), that come from this source are those
      // whose number has the parity of the source.
      const std::int64_t first_j = (target * c + source) % 2;
      BlockCopy copy = copy_of({{input.rows(), c, c}, {(c - first_j + 1) / 2, 1, 2}});
      copy.source = source;
      copy.target = target;
      copy.source_offset = (target * c + first_j) / 2;
      copy.target_offset = first_j;
      if (copy.count() > 0) move.push_back(simplified(copy));
    }
  }
  return move;
}

Move scalar_loss_move(std::int64_t rows) {
  // The source stride 0 repeats the one number.
  BlockCopy to_rows = copy_of({{rows, 0, 1}}), to_mean = copy_of({{1, 0, 1}});
  to_mean.target = 1;
  return {simplified(to_rows), simplified(to_mean)};
}

}  // namespace es::gpu
