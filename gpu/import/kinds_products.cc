// Linear layers and matrix products.
#include <algorithm>

#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// --- Linear layers and products.

Outputs linear_outputs(const NodeView& node) {
  const TensorShape &x = node.shape(0), &w = node.shape(1);
  if (x.rank() < 1 || w.rank() != 2 || x.row() != w[1])
    return usage_error("x " + shape_text(x) + " and weight " + shape_text(w) +
                       " must be [...,k] and [o,k]");
  if (node.has(2) && node.shape(2) != TensorShape{w[0]})
    return usage_error("bias " + shape_text(node.shape(2)) + " must be " + shape_text({w[0]}));
  return one_output(ValueType::kF32, with_extent(x, x.rank() - 1, w[0]));
}

void lower_linear(Lowering& l, const NodeView& node) {
  Op op{.kind = OpKind::kLinear,
        .name = node.label(),
        .in = {l.logical(node, 0)},
        .features = node.shape(1)[0]};
  l.set_weights(op, node, {0, 1});
  l.set_logical(node, l.builder().apply(std::move(op)));
}

// x [n,c,spatial...] and a weight [o,c*pixels], as if x were flattened first.
Outputs image_linear_outputs(const NodeView& node) {
  const TensorShape &x = node.shape(0), &w = node.shape(1);
  if (x.rank() < 3 || w.rank() != 2 || x.count(1, x.rank()) != w[1])
    return usage_error("x " + shape_text(x) + " and weight " + shape_text(w) +
                       " must be [n,c,spatial...] and [o,c*pixels]");
  if (node.has(2) && node.shape(2) != TensorShape{w[0]})
    return usage_error("bias " + shape_text(node.shape(2)) + " must be " + shape_text({w[0]}));
  return one_output(ValueType::kF32, {x[0], w[0]});
}

// The columns are read in the order in which the engine stores an image, so nothing moves. The sum
// over k has this order too: it is that of `image_linear` in the definition, while `linear` on a
// flattened value has k = (c, h, w).
void lower_image_linear(Lowering& l, const NodeView& node) {
  const TensorShape &x = node.shape(0), &w = node.shape(1);
  const TensorId image = l.in(node, 0, channels_last(x.rank()));
  Op op{.kind = OpKind::kLinear,
        .name = node.label(),
        .in = {l.builder().reshape(node.label(), image, {x[0], w[1]})},
        .features = w[0]};
  l.set_image_weight(op, node.input(1), x[1]);
  if (node.has(2)) l.set_bias(op, node.input(2));
  l.set_logical(node, l.builder().apply(std::move(op)));
}

Outputs matmul_outputs(const NodeView& node) {
  const TensorShape &a = node.shape(0), &b = node.shape(1);
  const Error wrong = usage_error("shapes " + shape_text(a) + " and " + shape_text(b) +
                                  " must be [...,m,k] and [...,k,n]");
  if (a.rank() < 2 || b.rank() < 2 || a.row() != b[b.rank() - 2]) return wrong;
  TensorShape batch_a, batch_b;
  for (int axis = 0; axis < a.rank() - 2; ++axis) batch_a.append(a[axis]);
  for (int axis = 0; axis < b.rank() - 2; ++axis) batch_b.append(b[axis]);
  const Result<TensorShape> batch = broadcast(batch_a, batch_b);
  if (!batch) return wrong;
  TensorShape y = *batch;
  y.append(a[a.rank() - 2]);
  y.append(b.row());
  return one_output(ValueType::kF32, y);
}

// Repeats the leading axes of an operand, which are all but its last two.
TensorId with_batch(GraphBuilder& b, const std::string& name, TensorId x,
                    const TensorShape& batch) {
  const TensorShape own = b.shape(x);
  TensorShape shape = batch;
  shape.append(own[own.rank() - 2]);
  shape.append(own.row());
  return b.expand(name, x, shape);
}

// A matrix b whose columns are contiguous is read where it lies. That is so for the result of a
// transposition, which only renames axes.
void lower_matmul(Lowering& l, const NodeView& node) {
  GraphBuilder& g = l.builder();
  const std::string name = node.label();
  const TensorShape& y = node.out().shape;
  const int rank = node.shape(1).rank();
  AxisOrder swapped = logical_order(rank);
  std::swap(swapped[static_cast<std::size_t>(rank) - 1],
            swapped[static_cast<std::size_t>(rank) - 2]);
  const bool transposed = l.stored(node.input(1)).order == swapped;
  TensorId a = l.logical(node, 0);
  TensorId b = transposed ? l.in(node, 1, swapped) : l.logical(node, 1);
  if (rank == 2) {  // one matrix for all rows
    const TensorShape rows{node.shape(0).rows(), node.shape(0).row()};
    return l.set_logical(node, g.matmul(name, g.reshape(name, a, rows), b, transposed));
  }
  TensorShape batch;
  for (int axis = 0; axis < y.rank() - 2; ++axis) batch.append(y[axis]);
  a = with_batch(g, name, a, batch);
  b = with_batch(g, name, b, batch);
  l.set_logical(node, g.matmul(name, a, b, transposed));
}

}  // namespace

std::vector<Kind> product_kinds() {
  return {
      {.name = "linear",
       .result = "x times the transposed weight, plus the bias",
       .slots = {{.name = "x", .types = "f", .shape = "[...,k]"},
                 {.name = "weight", .types = "f", .shape = "[o,k]"},
                 {.name = "bias", .types = "f", .optional = true, .shape = "[o]"}},
       .outputs = linear_outputs,
       .lower = lower_linear},
      {.name = "image_linear",
       .result = "`linear` of x as if it were flattened from axis 1",
       .slots = {{.name = "x", .types = "f", .shape = "[n,c,spatial...]"},
                 {.name = "weight", .types = "f", .of_image = true, .shape = "[o,c*pixels]"},
                 {.name = "bias", .types = "f", .optional = true, .shape = "[o]"}},
       .outputs = image_linear_outputs,
       .lower = lower_image_linear},
      {.name = "matmul",
       .result = "a times b; the leading axes are broadcast",
       .slots = {{.name = "a", .types = "f", .shape = "[...,m,k]"},
                 {.name = "b", .types = "f", .shape = "[...,k,n]"}},
       .outputs = matmul_outputs,
       .lower = lower_matmul},
  };
}

}  // namespace es::gpu
