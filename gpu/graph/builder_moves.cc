// GraphBuilder: operators that move data.
#include <algorithm>
#include <numeric>

#include "gpu/graph/builder.h"

namespace es::gpu {
namespace {

// Returns the letter of an axis of an image, or the number of another tensor's axis.
std::string axis_name(const TensorShape& shape, int axis) {
  return is_image(shape) ? std::string(1, "nhwc"[axis]) : "axis " + std::to_string(axis);
}

}  // namespace

// Moves also work on integers. The range of an output's values is that of the inputs. It includes 0
// if a part of the output is not written. Outputs carry the range because the operators that select
// rows refuse ids whose range is not known to fit.
std::vector<TensorId> GraphBuilder::move(const char* label, const std::string& name,
                                         const std::vector<TensorId>& xs, Move move,
                                         const std::vector<TensorShape>& ys) {
  if (std::max(xs.size(), ys.size()) > kMoveTensorsMax)
    fail(label, name, "more than " + std::to_string(kMoveTensorsMax) + " inputs or outputs");
  bool needs_grad = false;
  Note range = note(xs[0]);
  for (const TensorId x : xs) {
    if (tensor(x).type != tensor(xs[0]).type)
      fail(label, name, "its inputs must all hold numbers or all integers");
    // A flattened image has its elements in the order [h,w,c] and PyTorch's has [c,h,w], so a slice
    // of it would take other elements than in PyTorch.
    if (note(x).pixels > 1) fail(label, name, "input is a flattened image; move before flattening");
    needs_grad = needs_grad || tensor(x).needs_grad;
    range.low = std::min(range.low, note(x).low);
    range.high = std::max(range.high, note(x).high);
  }
  if (failed()) return std::vector<TensorId>(ys.size(), 0);
  Op op{.kind = OpKind::kMove, .name = name, .in = xs, .move = std::move(move)};
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const TensorId y = add_tensor(ys[i], needs_grad, tensor(xs[0]).type);
    const bool filled = written_words(op.move, static_cast<std::int32_t>(i)) < ys[i].count();
    note(y).low = filled ? std::min(range.low, 0) : range.low;
    note(y).high = filled ? std::max(range.high, 0) : range.high;
    // A word that no copy writes is +0, which is the integer 0, so the range has to include it.
    op.out.push_back(y);
  }
  push(std::move(op));
  return graph_.ops.back().out;
}

TensorId GraphBuilder::reshape(const std::string& name, TensorId x, TensorShape shape) {
  if (failed()) return 0;
  const TensorShape in = graph_.shape(x);
  if (note(x).pixels > 1) return fail("reshape", name, "input is a flattened image");
  // The product alone would accept two negative extents.
  bool positive = shape.rank() > 0;
  for (int axis = 0; axis < shape.rank(); ++axis) positive = positive && shape[axis] > 0;
  if (!positive || shape.count() != in.count())
    return fail(
        "reshape", name,
        shape_text(in) + " does not have the same number of elements as " + shape_text(shape));
  // A view that changes nothing would only be one more operator for the passes that look for
  // neighbours.
  if (shape == in) return x;
  const TensorId y = add_tensor(shape, tensor(x).needs_grad, tensor(x).type);
  note(y).low = note(x).low;
  note(y).high = note(x).high;
  push({.kind = OpKind::kView, .name = name, .in = {x}, .out = {y}});
  return y;
}

TensorId GraphBuilder::flatten(const std::string& name, TensorId x) {
  if (failed() || !dense_floats("flatten", name, {x}) || !image_input("flatten", name, x)) return 0;
  const ImageShape in = image(x);
  const TensorId y = GraphBuilder::reshape(name, x, {in.n, 1, 1, in.image()});
  if (y != x) {
    // For an image of one pixel, or one that is flattened already, reshape() has returned x. In
    // both cases a linear layer needs nothing new. Otherwise these two numbers give the order of
    // its columns.
    note(y).pixels = in.h * in.w;
    note(y).channels = in.c;
  }
  return y;
}

bool GraphBuilder::valid_axis(const char* kind, const std::string& name, TensorId x, int axis) {
  const int rank = graph_.shape(x).rank();
  if (!failed() && (axis < 0 || axis >= rank))
    fail(kind, name,
         "axis " + std::to_string(axis) + " is not one of " + shape_text(graph_.shape(x)));
  return !failed();
}

TensorId GraphBuilder::concat(const std::string& name, const std::vector<TensorId>& xs, int axis) {
  if (failed()) return 0;
  if (xs.empty()) return fail("concat", name, "needs at least one input");
  std::vector<TensorShape> shapes;
  std::int64_t total = 0;
  for (const TensorId x : xs) {
    if (!valid_axis("concat", name, x, axis)) return 0;
    shapes.push_back(graph_.shape(x));
    total += shapes.back()[axis];
    // The shapes must agree apart from the axis, so both are compared with the extent 1 there.
    if (with_extent(shapes.back(), axis, 1) != with_extent(shapes[0], axis, 1))
      return fail("concat", name,
                  "shapes " + shape_text(shapes[0]) + " and " + shape_text(shapes.back()) +
                      " may differ along " + axis_name(shapes[0], axis) + " only");
  }
  return move("concat", name, xs, concat_move(shapes, axis),
              {with_extent(shapes[0], axis, total)})[0];
}

TensorId GraphBuilder::slice(const std::string& name, TensorId x, int axis, std::int64_t begin,
                             std::int64_t count) {
  if (!valid_axis("slice", name, x, axis)) return 0;
  const TensorShape in = graph_.shape(x);
  // Written as a difference, because begin + count could overflow.
  if (begin < 0 || count < 1 || begin > in[axis] - count)
    return fail("slice", name,
                "[" + std::to_string(begin) + ", " + std::to_string(begin + count) + ") along " +
                    axis_name(in, axis) + " is not inside " + shape_text(in));
  return move("slice", name, {x}, slice_move(in, axis, begin, count),
              {with_extent(in, axis, count)})[0];
}

TensorId GraphBuilder::strided_slice(const std::string& name, TensorId x, int axis,
                                     std::int64_t begin, std::int64_t step, std::int64_t count) {
  if (!valid_axis("slice", name, x, axis)) return 0;
  const TensorShape in = graph_.shape(x);
  const auto inside = [&](std::int64_t i) { return i >= 0 && i < in[axis]; };
  // Both ends are checked, because a negative step walks towards 0. All elements between them are
  // then inside too.
  if (step == 0 || count < 1 || !inside(begin) || !inside(begin + (count - 1) * step))
    return fail("slice", name,
                std::to_string(count) + " elements from " + std::to_string(begin) +
                    " in steps of " + std::to_string(step) + " along " + axis_name(in, axis) +
                    " are not inside " + shape_text(in));
  return move("slice", name, {x}, strided_slice_move(in, axis, begin, step, count),
              {with_extent(in, axis, count)})[0];
}

std::vector<TensorId> GraphBuilder::split(const std::string& name, TensorId x, int axis,
                                          std::int64_t parts) {
  const std::vector<TensorId> none(static_cast<std::size_t>(std::max<std::int64_t>(parts, 1)), 0);
  if (!valid_axis("split", name, x, axis)) return none;
  const TensorShape in = graph_.shape(x);
  if (parts < 1 || in[axis] % parts != 0) {
    fail("split", name,
         shape_text(in) + " along " + axis_name(in, axis) +
             " must be a multiple of parts = " + std::to_string(parts));
    return none;
  }
  const TensorShape part = with_extent(in, axis, in[axis] / parts);
  return move("split", name, {x}, split_move(in, axis, parts),
              std::vector<TensorShape>(static_cast<std::size_t>(parts), part));
}

TensorId GraphBuilder::pad(const std::string& name, TensorId x, int axis, std::int64_t before,
                           std::int64_t after) {
  if (!valid_axis("pad", name, x, axis)) return 0;
  const TensorShape in = graph_.shape(x);
  if (before < 0 || after < 0) return fail("pad", name, "before and after must be at least 0");
  return move("pad", name, {x}, pad_move(in, axis, before, after),
              {with_extent(in, axis, before + in[axis] + after)})[0];
}

TensorId GraphBuilder::permute(const std::string& name, TensorId x, const std::vector<int>& order) {
  if (failed()) return 0;
  const TensorShape in = graph_.shape(x);
  std::vector<int> sorted = order, axes(static_cast<std::size_t>(in.rank()));
  std::sort(sorted.begin(), sorted.end());
  std::iota(axes.begin(), axes.end(), 0);
  if (sorted != axes)
    return fail("permute", name,
                is_image(in) ? "order must name each of n, h, w, c once"
                             : "order must name each axis of " + shape_text(in) + " once");
  return move("permute", name, {x}, permute_move(in, order), {permuted_shape(in, order)})[0];
}

TensorId GraphBuilder::roll(const std::string& name, TensorId x, int axis, std::int64_t shift) {
  if (!valid_axis("roll", name, x, axis)) return 0;
  const TensorShape in = graph_.shape(x);
  const std::int64_t size = in[axis];
  // The remainder of C++ has the sign of the shift, and roll_move() needs a shift in [0, size).
  return move("roll", name, {x}, roll_move(in, axis, (shift % size + size) % size), {in})[0];
}

TensorId GraphBuilder::window_partition(const std::string& name, TensorId x, std::int64_t side) {
  if (failed() || !image_input("window_partition", name, x)) return 0;
  const ImageShape in = image(x);
  if (side < 1 || in.h % side != 0 || in.w % side != 0)
    return fail(
        "window_partition", name,
        "h and w of " + shape_text(in) + " must be multiples of the side " + std::to_string(side));
  return move("window_partition", name, {x}, window_partition_move(in, side),
              {window_shape(in, side)})[0];
}

TensorId GraphBuilder::window_reverse(const std::string& name, TensorId windows, std::int64_t side,
                                      ImageShape image) {
  if (failed()) return 0;
  const TensorShape in = graph_.shape(windows);
  if (side < 1 || image.h % side != 0 || image.w % side != 0 || window_shape(image, side) != in)
    return fail("window_reverse", name,
                shape_text(in) + " are not the windows of side " + std::to_string(side) +
                    " of an image " + shape_text(image));
  // The opposite of the partition of an image of this shape, so the two cannot disagree about the
  // order of windows.
  return move("window_reverse", name, {windows}, transposed(window_partition_move(image, side)),
              {image})[0];
}

TensorId GraphBuilder::upsample2(const std::string& name, TensorId x) {
  return apply({.kind = OpKind::kUpsample2, .name = name, .in = {x}});
}

TensorId GraphBuilder::channel_shuffle(const std::string& name, TensorId x, std::int64_t groups) {
  if (failed()) return 0;
  const TensorShape in = graph_.shape(x);
  if (groups < 1 || in.row() % groups != 0)
    return fail("channel_shuffle", name,
                std::to_string(in.row()) +
                    " channels must be a multiple of groups = " + std::to_string(groups));
  return move("channel_shuffle", name, {x}, channel_shuffle_move(in, groups), {in})[0];
}

std::pair<TensorId, TensorId> GraphBuilder::concat_shuffle_split(const std::string& name,
                                                                 TensorId a, TensorId b) {
  if (failed()) return {0, 0};
  const TensorShape in = graph_.shape(a);
  if (graph_.shape(b) != in) {
    fail("concat_shuffle_split", name,
         "shapes " + shape_text(in) + " and " + shape_text(graph_.shape(b)) + " must be equal");
    return {0, 0};
  }
  const std::vector<TensorId> y =
      move("concat_shuffle_split", name, {a, b}, concat_shuffle_split_move(in), {in, in});
  return {y[0], y[1]};
}

}  // namespace es::gpu
