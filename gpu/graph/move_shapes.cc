#include "gpu/graph/move_shapes.h"

#include <array>

namespace es::gpu {
namespace {

using Index = std::array<std::int64_t, 4>;

Index index_of(const TensorShape& s) {
  return {s.n, s.h, s.w, s.c};
}

Index strides(const TensorShape& s) {
  return {s.h * s.w * s.c, s.w * s.c, s.c, 1};
}

Index at(Axis axis, std::int64_t position) {
  Index index = {};
  index[static_cast<std::size_t>(axis)] = position;
  return index;
}

std::int64_t offset(const TensorShape& shape, const Index& index) {
  const Index stride = strides(shape);
  std::int64_t sum = 0;
  for (std::size_t d = 0; d < 4; ++d) sum += index[d] * stride[d];
  return sum;
}

// Copies the box of size `box` that begins at `from` in the source and at `to` in the target.
BlockCopy box_copy(const TensorShape& source, const Index& from, const TensorShape& target,
                   const Index& to, const TensorShape& box) {
  BlockCopy copy;
  copy.source_offset = offset(source, from);
  copy.target_offset = offset(target, to);
  for (std::size_t d = 0; d < 4; ++d) {
    copy.size[2 + d] = index_of(box)[d];
    copy.source_stride[2 + d] = strides(source)[d];
    copy.target_stride[2 + d] = strides(target)[d];
  }
  return copy;
}

}  // namespace

std::int64_t extent(const TensorShape& shape, Axis axis) {
  return index_of(shape)[static_cast<std::size_t>(axis)];
}

TensorShape with_extent(TensorShape shape, Axis axis, std::int64_t size) {
  Index index = index_of(shape);
  index[static_cast<std::size_t>(axis)] = size;
  return {index[0], index[1], index[2], index[3]};
}

Move concat_move(std::span<const TensorShape> inputs, Axis axis) {
  std::int64_t total = 0;
  for (const TensorShape& s : inputs) total += extent(s, axis);
  const TensorShape output = with_extent(inputs[0], axis, total);
  Move move;
  std::int64_t begin = 0;
  for (const TensorShape& s : inputs) {
    BlockCopy copy = box_copy(s, {}, output, at(axis, begin), s);
    copy.source = static_cast<std::int32_t>(move.size());
    move.push_back(simplified(copy));
    begin += extent(s, axis);
  }
  return move;
}

Move split_move(const TensorShape& input, Axis axis, std::int64_t parts) {
  const std::int64_t size = extent(input, axis) / parts;
  Move move;
  for (std::int64_t p = 0; p < parts; ++p) {
    BlockCopy copy = slice_move(input, axis, p * size, size)[0];
    copy.target = static_cast<std::int32_t>(p);
    move.push_back(copy);
  }
  return move;
}

Move slice_move(const TensorShape& input, Axis axis, std::int64_t begin, std::int64_t count) {
  const TensorShape output = with_extent(input, axis, count);
  return {simplified(box_copy(input, at(axis, begin), output, {}, output))};
}

Move pad_move(const TensorShape& input, Axis axis, std::int64_t before, std::int64_t after) {
  const TensorShape output = with_extent(input, axis, before + extent(input, axis) + after);
  return {simplified(box_copy(input, {}, output, at(axis, before), input))};
}

TensorShape permuted_shape(const TensorShape& input, std::span<const Axis> order) {
  return {extent(input, order[0]), extent(input, order[1]), extent(input, order[2]),
          extent(input, order[3])};
}

Move permute_move(const TensorShape& input, std::span<const Axis> order) {
  const TensorShape output = permuted_shape(input, order);
  BlockCopy copy = box_copy(input, {}, output, {}, output);
  for (std::size_t d = 0; d < 4; ++d)
    copy.source_stride[2 + d] = strides(input)[static_cast<std::size_t>(order[d])];
  return {simplified(copy)};
}

Move roll_move(const TensorShape& input, Axis axis, std::int64_t shift) {
  const std::int64_t size = extent(input, axis);
  const TensorShape wrapped = with_extent(input, axis, shift);
  const TensorShape rest = with_extent(input, axis, size - shift);
  // A roll is two copies: the part that stays in order, and the part that wraps around.
  Move move{simplified(box_copy(input, {}, input, at(axis, shift), rest))};
  if (shift > 0)
    move.push_back(simplified(box_copy(input, at(axis, size - shift), input, {}, wrapped)));
  return move;
}

TensorShape window_shape(const TensorShape& image, std::int64_t side) {
  return {image.n * (image.h / side) * (image.w / side), side * side, 1, image.c};
}

Move window_partition_move(const TensorShape& image, std::int64_t side) {
  const std::int64_t rows = image.n * (image.h / side), columns = image.w / side, c = image.c;
  BlockCopy copy;
  copy.size = {1, rows, columns, side, side, c};
  copy.source_stride = {0, side * image.w * c, side * c, image.w * c, c, 1};
  const std::int64_t window = side * side * c;
  copy.target_stride = {0, columns * window, window, side * c, c, 1};
  return {simplified(copy)};
}

Move upsample2_move(const TensorShape& input) {
  const std::int64_t row = input.w * input.c, c = input.c;
  BlockCopy copy;
  copy.size = {1, input.n * input.h, 2, input.w, 2, c};
  copy.source_stride = {0, row, 0, c, 0, 1};
  copy.target_stride = {0, 4 * row, 2 * row, 2 * c, c, 1};
  return {simplified(copy)};
}

Move channel_shuffle_move(const TensorShape& input, std::int64_t groups) {
  const std::int64_t size = input.c / groups;
  BlockCopy copy;
  copy.size = {1, 1, 1, input.rows(), groups, size};
  copy.source_stride = {0, 0, 0, input.c, size, 1};
  copy.target_stride = {0, 0, 0, input.c, 1, groups};
  return {simplified(copy)};
}

Move concat_shuffle_split_move(const TensorShape& input) {
  const std::int64_t c = input.c;
  Move move;
  for (std::int32_t target = 0; target < 2; ++target) {
    for (std::int32_t source = 0; source < 2; ++source) {
      // The shuffled channels target * c + j, j in [0, c), that come from this source are those
      // whose number has the parity of the source.
      const std::int64_t first_j = (target * c + source) % 2;
      BlockCopy copy;
      copy.source = source;
      copy.target = target;
      copy.source_offset = (target * c + first_j) / 2;
      copy.target_offset = first_j;
      copy.size = {1, 1, 1, 1, input.rows(), (c - first_j + 1) / 2};
      copy.source_stride = {0, 0, 0, 0, c, 1};
      copy.target_stride = {0, 0, 0, 0, c, 2};
      if (copy.count() > 0) move.push_back(simplified(copy));
    }
  }
  return move;
}

}  // namespace es::gpu
