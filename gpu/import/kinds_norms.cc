// Normalisation.
#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// Checks that weight and bias, where given, have this shape.
Status check_affine(const NodeView& node, const TensorShape& shape) {
  for (std::size_t slot = 1; slot < 3; ++slot)
    if (node.has(slot) && node.shape(slot) != shape)
      return usage_error(std::string(node.kind().slots[slot].name) + " " +
                         shape_text(node.shape(slot)) + " must be " + shape_text(shape));
  return {};
}

Outputs channel_norm_outputs(const NodeView& node) {
  const TensorShape& x = node.shape();
  if (x.rank() < 2) return usage_error("x " + shape_text(x) + " must be [n,c,...]");
  ES_RETURN_IF_ERROR(check_affine(node, {x[1]}));
  return same_as_input(node);
}

Outputs group_norm_outputs(const NodeView& node) {
  const Outputs outputs = channel_norm_outputs(node);
  if (outputs && node.shape()[1] % node.integer("groups") != 0)
    return usage_error("the channels of x " + shape_text(node.shape()) +
                       " must be a multiple of groups = " + std::to_string(node.integer("groups")));
  return outputs;
}

// The normalised axes are the last `axes` ones.
Outputs last_axes_outputs(const NodeView& node) {
  const TensorShape& x = node.shape();
  const std::int64_t axes = node.integer("axes");
  if (axes > x.rank())
    return usage_error("axes = " + std::to_string(axes) + ": x " + shape_text(x) +
                       " has fewer axes");
  TensorShape shape;
  for (int axis = x.rank() - static_cast<int>(axes); axis < x.rank(); ++axis) shape.append(x[axis]);
  ES_RETURN_IF_ERROR(check_affine(node, shape));
  return same_as_input(node);
}

Outputs softmax_outputs(const NodeView& node) {
  ES_RETURN_IF_ERROR(check_axis(node.integer("axis"), node.shape().rank()));
  return same_as_input(node);
}

// --- Lowering.

void lower_batch_norm(Lowering& l, const NodeView& node) {
  const AxisOrder order = channels_last(node.shape().rank());
  Op op{.kind = OpKind::kBatchNorm,
        .name = node.label(),
        .in = {l.in(node, 0, order)},
        .eps = static_cast<float>(node.number("eps")),
        .momentum = static_cast<float>(node.number("momentum"))};
  // The order matters if several nodes share statistics: the second one in the program begins with
  // those that the first one has updated.
  op.stats = l.statistics(node.integer("mean"), node.integer("variance"));
  l.set_affine(op, node, node.shape()[1]);
  l.set(node, l.builder().apply(std::move(op)), order);
}

// The normalised axes become one.
TensorShape rows_of(const NodeView& node) {
  const TensorShape& x = node.shape();
  const int kept = x.rank() - static_cast<int>(node.integer("axes"));
  return {x.count(0, kept), x.count(kept, x.rank())};
}

void lower_layer_norm(Lowering& l, const NodeView& node) {
  const TensorShape rows = rows_of(node);
  Op op{.kind = OpKind::kLayerNorm,
        .name = node.label(),
        .in = {node.integer("axes") == 1
                   ? l.logical(node, 0)
                   : l.builder().reshape(node.label(), l.logical(node, 0), rows)},
        .eps = static_cast<float>(node.number("eps"))};
  l.set_affine(op, node, rows[1]);
  l.set_logical(node, l.builder().apply(std::move(op)));
}

// x * rsqrt(mean(x^2) + eps) * weight
void lower_rms_norm(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const TensorShape rows = rows_of(node);
  const TensorId x = b.reshape(name, l.logical(node, 0), rows);
  // The squares are not centred: this norm divides by the root of the mean square and subtracts
  // nothing.
  const TensorId mean =
      b.reduce(name, Reduction::kMean, b.unary(name, Function::kSquare, x), {1}, true);
  const TensorId shifted =
      b.unary(name, Function::kAddScalar, mean, {.a = static_cast<float>(node.number("eps"))});
  TensorId y = b.binary(name, Function::kMul, x, b.unary(name, Function::kRsqrt, shifted));
  if (node.has(1))
    y = b.binary(name, Function::kMul, y, b.reshape(name, l.logical(node, 1), {rows[1]}));
  l.set_logical(node, y);
}

// A layer norm of every group, then weight and bias of every channel. A layer norm has a weight for
// each element of its row and a group has one for each channel, so the layer norm itself gets the
// weight 1 and the bias 0.
void lower_group_norm(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const TensorShape& x = node.shape();
  const std::int64_t groups = node.integer("groups"), size = x.count() / (x[0] * groups);
  Op op{.kind = OpKind::kLayerNorm,
        .name = name,
        .in = {b.reshape(name, l.logical(node, 0), {x[0] * groups, size})},
        .eps = static_cast<float>(node.number("eps"))};
  l.set_missing(op, name, size);
  TensorId y = b.apply(std::move(op));
  y = b.reshape(name, y, {x[0], x[1], x.count(2, x.rank())});
  const auto by_channel = [&](std::size_t slot) {
    return b.reshape(name, l.logical(node, slot), {x[1], 1});
  };
  if (node.has(1)) y = b.binary(name, Function::kMul, y, by_channel(1));
  if (node.has(2)) y = b.binary(name, Function::kAdd, y, by_channel(2));
  l.set_logical(node, y);
}

// The operator works along rows, so the axis becomes the last one.
void lower_softmax(Lowering& l, const NodeView& node) {
  const AxisOrder order = axis_last(node.shape().rank(), static_cast<int>(node.integer("axis")));
  l.set(node, l.builder().softmax(node.label(), l.in(node, 0, order)), order);
}

void lower_log_softmax(Lowering& l, const NodeView& node) {
  const AxisOrder order = axis_last(node.shape().rank(), static_cast<int>(node.integer("axis")));
  l.set(node, log_softmax(l.builder(), node.label(), l.in(node, 0, order)), order);
}

std::vector<Slot> affine_slots(const char* shape = "") {
  return {{.name = "x", .types = "f", .shape = shape}, {"weight", "f", true}, {"bias", "f", true}};
}

AttributeRule eps() {
  return number("eps", 1e-30, 1e30);
}

}  // namespace

std::vector<Kind> norm_kinds() {
  return {
      {.name = "batch_norm",
       .result = "x, normalised for each channel",
       .slots = affine_slots("[n,c,...]"),
       .attributes = {eps(), number("momentum", 0.0, 1.0), integer("mean", 0, 0x7fffffff),
                      integer("variance", 0, 0x7fffffff)},
       .outputs = channel_norm_outputs,
       .lower = lower_batch_norm},
      {.name = "layer_norm",
       .result = "x, normalised over the last axes",
       .slots = affine_slots(),
       .attributes = {integer("axes", 1, kRankMax), eps()},
       .outputs = last_axes_outputs,
       .lower = lower_layer_norm},
      {.name = "rms_norm",
       .result = "x, divided by its root mean square over the last axes",
       .slots = {{"x", "f"}, {"weight", "f", true}},
       .attributes = {integer("axes", 1, kRankMax), eps()},
       .outputs = last_axes_outputs,
       .lower = lower_rms_norm},
      {.name = "group_norm",
       .result = "x, normalised over each group of channels of a sample",
       .slots = affine_slots("[n,c,...]"),
       .attributes = {integer("groups", 1, 1 << 20), eps()},
       .outputs = group_norm_outputs,
       .lower = lower_group_norm},
      {.name = "softmax",
       .result = "the function along the axis",
       .slots = {{"x", "f"}},
       .attributes = {axis_rule()},
       .outputs = softmax_outputs,
       .lower = lower_softmax},
      {.name = "log_softmax",
       .result = "the function along the axis",
       .slots = {{"x", "f"}},
       .attributes = {axis_rule()},
       .outputs = softmax_outputs,
       .lower = lower_log_softmax},
  };
}

}  // namespace es::gpu
