// GraphBuilder: element-wise operators. Each is a chain with one stage; fuse.h joins chains that
// follow each other.
#include <algorithm>
#include <cmath>

#include "gpu/graph/builder.h"
#include "proto/base/number_text.h"

namespace es::gpu {

// xs[0] is the value that the stage transforms. A second tensor is the operand of the stage.
TensorId GraphBuilder::chain(const std::string& name, const std::vector<TensorId>& xs,
                             ChainStep step) {
  const TensorId x = xs[0];
  // ChainStep::operand is an index into Op::in, and 0 stands for no operand, because in[0] is the
  // value that passes through the stages. With one tensor the expression is 0, and with two it is
  // 1.
  step.operand = static_cast<std::int32_t>(xs.size()) - 1;
  const TensorId y = apply({.kind = OpKind::kChain, .name = name, .in = xs, .chain = {step}});
  if (!failed()) note(y) = note(x);
  return y;
}

TensorId GraphBuilder::relu(const std::string& name, TensorId x) {
  if (failed() || !floats("relu", name, {x})) return 0;
  return chain(name, {x}, {.kind = ChainKind::kRelu});
}

TensorId GraphBuilder::leaky_relu(const std::string& name, TensorId x, float slope) {
  if (failed() || !floats("leaky_relu", name, {x})) return 0;
  // The gradient takes the sign of x from y, which requires a positive slope.
  if (!(slope > 0.0F))
    return fail("leaky_relu", name, "slope " + number_text(slope) + " must be above 0");
  return chain(name, {x}, {.kind = ChainKind::kLeakyRelu, .factor = slope});
}

TensorId GraphBuilder::gelu(const std::string& name, TensorId x) {
  if (failed() || !floats("gelu", name, {x})) return 0;
  return chain(name, {x}, {.kind = ChainKind::kGelu});
}

TensorId GraphBuilder::tanh(const std::string& name, TensorId x) {
  if (failed() || !floats("tanh", name, {x})) return 0;
  return chain(name, {x}, {.kind = ChainKind::kTanh});
}

TensorId GraphBuilder::sigmoid(const std::string& name, TensorId x) {
  if (failed() || !floats("sigmoid", name, {x})) return 0;
  return chain(name, {x}, {.kind = ChainKind::kSigmoid});
}

TensorId GraphBuilder::scale(const std::string& name, TensorId x, float factor) {
  if (failed() || !floats("scale", name, {x})) return 0;
  return chain(name, {x}, {.kind = ChainKind::kScale, .factor = factor});
}

TensorId GraphBuilder::same_shapes(const char* kind, const std::string& name, TensorId a,
                                   TensorId b, ChainKind step) {
  if (failed() || !floats(kind, name, {a, b})) return 0;
  if (graph_.shape(a) != graph_.shape(b))
    return fail(kind, name,
                "shapes " + shape_text(graph_.shape(a)) + " and " + shape_text(graph_.shape(b)) +
                    " must be equal");
  // Two images of different shapes can be flattened to equally many elements. Element i of one is
  // then another pixel and channel than element i of the other, while PyTorch would pair them in
  // the order [c,h,w].
  if (note(a).pixels != note(b).pixels)
    return fail(kind, name, "its inputs are flattened from different image shapes");
  return chain(name, {a, b}, {.kind = step});
}

TensorId GraphBuilder::add(const std::string& name, TensorId a, TensorId b, ReluFused fused) {
  const TensorId sum = same_shapes("add", name, a, b, ChainKind::kAdd);
  return fused.relu ? relu(name, sum) : sum;
}

TensorId GraphBuilder::mul(const std::string& name, TensorId a, TensorId b) {
  return same_shapes("mul", name, a, b, ChainKind::kMul);
}

TensorId GraphBuilder::add_rows(const std::string& name, TensorId a, TensorId row) {
  if (failed() || !dense_floats("add_rows", name, {a, row})) return 0;
  const TensorShape expected = with_extent(graph_.shape(a), 0, 1);
  if (graph_.shape(row) != expected)
    return fail("add_rows", name,
                "row " + shape_text(graph_.shape(row)) + " must be " + shape_text(expected));
  return chain(name, {a, row}, {.kind = ChainKind::kAddRow, .columns = expected.count()});
}

// Numbers the random operators in the order of the calls. The number is part of the Philox counter,
// so the decisions of an operator do not depend on what other operators draw.
//
// An element is kept if its 32-bit random word is below the threshold, so the threshold is the
// probability of keeping in units of 2^-32. The limits keep it a 32-bit number that is not 0, for a
// p near 0 or 1. The factor 1 / (1 - p) keeps the expected value, as in PyTorch.
Dropout GraphBuilder::next_dropout(double p) {
  constexpr double kTwo32 = 4294967296.0;
  const double threshold = std::nearbyint((1.0 - p) * kTwo32);
  return {.threshold = static_cast<std::uint32_t>(std::clamp(threshold, 1.0, kTwo32 - 1.0)),
          .op = random_ops_++,
          .factor = static_cast<float>(1.0 / (1.0 - p))};
}

TensorId GraphBuilder::drop(const char* kind, const std::string& name, TensorId x, double p,
                            std::int64_t columns) {
  if (!floats(kind, name, {x})) return 0;
  if (!(p >= 0.0 && p < 1.0))
    return fail(kind, name, "p = " + number_text(p) + " must be at least 0 and below 1");
  // Without a decision to make there is no operator and no number is taken, so the numbers of later
  // random operators depend on which probabilities are 0.
  if (p == 0.0) return x;
  return chain(name, {x},
               {.kind = ChainKind::kDropout, .columns = columns, .dropout = next_dropout(p)});
}

TensorId GraphBuilder::dropout(const std::string& name, TensorId x, double p) {
  return failed() ? 0 : drop("dropout", name, x, p, 1);
}

TensorId GraphBuilder::drop_path(const std::string& name, TensorId x, double p) {
  if (failed()) return 0;
  if (graph_.shape(x).front() % graph_.batch != 0)
    return fail("drop_path", name,
                "the first dimension of " + shape_text(graph_.shape(x)) +
                    " must be a multiple of the batch size " + std::to_string(graph_.batch));
  // One decision for each sample of the mini-batch: the elements of a sample are `columns`
  // neighbours. A tensor of windows has several indices of its first axis for one sample.
  return drop("drop_path", name, x, p, graph_.shape(x).count() / graph_.batch);
}

TensorId GraphBuilder::drop_rows(const std::string& name, TensorId x, double p) {
  const TensorShape& s = graph_.shape(x);
  return failed() ? 0 : drop("drop_rows", name, x, p, s.count() / s.front());
}

TensorId GraphBuilder::uniform(const std::string& name, const TensorShape& shape) {
  // The counter of a random number has 32 bits and gives four numbers.
  constexpr std::int64_t kNumbersMax = std::int64_t{1} << 34;
  if (failed()) return 0;
  if (shape.count() > kNumbersMax)
    return fail("uniform", name,
                "shape " + shape_text(shape) + ": allowed are at most 2^34 random numbers");
  return append({.kind = OpKind::kUniform, .name = name, .random_op = random_ops_++}, {{shape}});
}

}  // namespace es::gpu
