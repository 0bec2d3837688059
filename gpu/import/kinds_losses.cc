// Losses. Output 0 is a number.
#include <algorithm>
#include <limits>
#include <string_view>

#include "gpu/import/composed.h"
#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

Outputs number_output() {
  return one_output(ValueType::kF32, {});
}

// Logits [n,c,...], labels [n,...], and a weight [c].
Outputs class_loss_outputs(const NodeView& node) {
  const TensorShape& x = node.shape(0);
  if (x.rank() < 2) return usage_error("x " + shape_text(x) + " must be [n,c,...]");
  TensorShape labels{x[0]};
  for (int axis = 2; axis < x.rank(); ++axis) labels.append(x[axis]);
  if (node.shape(1) != labels)
    return usage_error("labels " + shape_text(node.shape(1)) + " must be " + shape_text(labels));
  if (node.inputs() > 2 && node.has(2) && node.shape(2) != TensorShape{x[1]})
    return usage_error("weight " + shape_text(node.shape(2)) + " must be " + shape_text({x[1]}));
  return number_output();
}

Outputs element_loss_outputs(const NodeView& node) {
  if (node.shape(0) != node.shape(1))
    return usage_error("x " + shape_text(node.shape(0)) + " and target " +
                       shape_text(node.shape(1)) + " must have one shape");
  for (std::size_t slot = 2; slot < node.inputs(); ++slot)
    if (node.has(slot) && !broadcasts_to(node.shape(slot), node.shape(0)))
      return usage_error(std::string(node.kind().slots[slot].name) + " " +
                         shape_text(node.shape(slot)) + " must fit " + shape_text(node.shape(0)));
  return number_output();
}

Outputs soft_outputs(const NodeView& node) {
  if (node.shape(0).rank() < 2) return usage_error("logits must be [n,c]");
  return element_loss_outputs(node);
}

// --- Lowering. The mean over all elements has an operator of its own where it is the loss of the
// model; its rows are the losses of the samples. Everything else is built from general operators.

// Returns the sums over all axes but the first one.
TensorId row_sums(GraphBuilder& b, const std::string& name, TensorId x) {
  std::vector<int> axes = logical_order(b.shape(x).rank());
  axes.erase(axes.begin());
  if (axes.empty()) return x;
  return b.reduce(name, Reduction::kSum, x, axes, false);
}

// Returns the sum or mean of the losses of the elements, as a number.
TensorId total(Lowering& l, const NodeView& node, TensorId losses) {
  GraphBuilder& b = l.builder();
  const std::string reduction = node.text("reduction");
  std::vector<int> axes = logical_order(b.shape(losses).rank());
  const TensorId sum = b.reduce(node.label(), Reduction::kSum, losses, axes, false);
  // A "batchmean" divides by the number of rows, as PyTorch's kl_div does.
  const std::int64_t count = reduction == "mean"        ? node.shape().count()
                             : reduction == "batchmean" ? node.shape()[0]
                                                        : 1;
  if (l.is_loss(node) && reduction != "sum")
    l.set_loss_rows(
        node, {.losses = reduction == "batchmean" ? row_sums(b, node.label(), losses) : losses});
  return count == 1 ? sum
                    : b.unary(node.label(), Function::kMulScalar, sum,
                              {.a = static_cast<float>(1.0 / static_cast<double>(count))});
}

// The operator for a loss has no result that a node could read. It is used if the loss has one use,
// which is to be the loss.
bool is_last(const Lowering& l, const NodeView& node) {
  return l.is_loss(node) && l.uses(node.output()) == 1 && node.text("reduction") == "mean";
}

// --- Losses over classes.

// Returns whether the operator's rule for labels is that of the node. The operator leaves out
// negative labels. PyTorch leaves out one label, so the two agree if this label is negative or does
// not occur. Labels that may be no class, because they are computed, are not for the operator.
bool plain_labels(Lowering& l, const NodeView& node, TensorId labels) {
  const std::int64_t ignored = node.integer("ignore_index"), classes = node.shape(0)[1];
  const std::int64_t largest = l.builder().range(labels).second;
  return (ignored < 0 || ignored > largest) && largest < classes;
}

// Returns -sum over classes of target * log_probs for each row, where `targets` has the shape of
// the logs.
TensorId against(GraphBuilder& b, const std::string& name, TensorId logs, TensorId targets) {
  const int last = b.shape(logs).rank() - 1;
  const TensorId products = b.binary(name, Function::kMul, logs, targets);
  return b.unary(name, Function::kNegate, b.reduce(name, Reduction::kSum, products, {last}, false));
}

// Returns -sum over classes of w * (log_probs where the condition holds, else 0) for each row. The
// log-probability of a class that is not chosen may be -inf, which must not be multiplied by 0.
TensorId against_chosen(GraphBuilder& b, const std::string& name, TensorId logs, TensorId chosen,
                        TensorId weights) {
  const TensorId zero = b.constant(name, {1}, {0.0F});
  const TensorId some = b.where(name, chosen, logs, zero);
  if (weights != kNoTensor) return against(b, name, some, weights);
  const int last = b.shape(some).rank() - 1;
  return b.unary(name, Function::kNegate, b.reduce(name, Reduction::kSum, some, {last}, false));
}

// Returns the truth value of labels that are neither a class nor ignored; kNoTensor: their range
// shows that there are none.
TensorId wrong_labels(GraphBuilder& b, const std::string& name, TensorId labels,
                      std::int64_t classes, TensorId takes_part) {
  const auto [low, high] = b.range(labels);
  if (low >= 0 && high < classes) return kNoTensor;
  const TensorId limited = b.limit(name, labels, 0, static_cast<std::int32_t>(classes - 1));
  return b.binary(name, Function::kMul, takes_part,
                  b.binary(name, Function::kNotEqual, labels, limited));
}

// 1 in the column of the label, else 0; rows whose label is no class have zeros only. The
// comparison broadcasts the labels against 0, 1, 2, ....
TensorId one_hot(GraphBuilder& b, const std::string& name, TensorId labels, std::int64_t classes) {
  TensorShape column = b.shape(labels);
  column.append(1);
  return b.binary(name, Function::kEqual, b.reshape(name, labels, column),
                  b.numbers(name, classes));
}

// The general form, for log-probabilities with the classes last: with weights w of the classes,
// label smoothing s and rows i that take part,
//   loss_i = -(1 - s) w[y_i] logp[i, y_i] - s / C sum_c w[c] logp[i, c]
// and the mean divides by the sum of w[y_i]. A row whose label is neither a class nor ignored has
// the loss NaN, so that the step ends with an error, as in PyTorch.
void lower_class_loss(Lowering& l, const NodeView& node, TensorId logs, double smoothing) {
  GraphBuilder& b = l.builder();
  const std::string name = node.label();
  const TensorId labels = l.logical(node, 1);
  const std::int64_t classes = node.shape(0)[1];
  const TensorId ignored =
      b.constant_ids(name, {1}, {static_cast<std::int32_t>(node.integer("ignore_index"))});
  const TensorId takes_part = b.binary(name, Function::kNotEqual, labels, ignored);
  TensorShape column = b.shape(labels);
  column.append(1);
  const TensorId chosen = b.binary(name, Function::kMul, one_hot(b, name, labels, classes),
                                   b.reshape(name, takes_part, column));
  const TensorId class_weights = node.has(2) ? l.logical(node, 2) : kNoTensor;
  const TensorId hot = node.has(2) ? b.binary(name, Function::kMul, chosen, class_weights) : chosen;
  const int last = b.shape(logs).rank() - 1;
  // w[y_i] for each row that takes part, and 0 for the others: a row of `hot` has one element that
  // is not 0.
  const TensorId weights = b.reduce(name, Reduction::kSum, hot, {last}, false);
  TensorId losses = against_chosen(b, name, logs, chosen, class_weights);
  if (smoothing != 0.0) {
    // The second term sums over all classes of a row that takes part.
    const TensorId smooth =
        against_chosen(b, name, logs, b.reshape(name, takes_part, column), class_weights);
    const float share = static_cast<float>(smoothing / static_cast<double>(classes));
    losses = b.add(name, b.scale(name, losses, static_cast<float>(1.0 - smoothing)),
                   b.scale(name, smooth, share));
  }
  const TensorId wrong = wrong_labels(b, name, labels, classes, takes_part);
  if (wrong != kNoTensor)
    losses = b.where(name, wrong, b.constant(name, {1}, {std::numeric_limits<float>::quiet_NaN()}),
                     losses);
  const auto sum = [&](TensorId x) {
    return b.reduce(name, Reduction::kSum, x, logical_order(b.shape(x).rank()), false);
  };
  if (node.text("reduction") == "sum") return l.set_logical(node, sum(losses));
  l.set_loss_rows(node, {losses, weights});
  l.set_logical(node, b.binary(name, Function::kDiv, sum(losses), sum(weights)));
}

void lower_cross_entropy(Lowering& l, const NodeView& node) {
  const TensorId logits = l.in(node, 0, channels_last(node.shape().rank()));
  const TensorId labels = l.logical(node, 1);
  const double smoothing = node.number("label_smoothing");
  const bool plain =
      !node.has(2) && smoothing == 0.0 && plain_labels(l, node, labels) && node.shape(0)[1] > 1;
  if (is_last(l, node) && plain)
    return l.builder().cross_entropy(node.label(), l.unless_refused(logits), labels);
  lower_class_loss(l, node, log_softmax(l.builder(), node.label(), logits), smoothing);
}

// Always the loss of the model, so that its terms can be part of the operator.
void lower_regularised_cross_entropy(Lowering& l, const NodeView& node) {
  const TensorId logits = l.in(node, 0, channels_last(node.shape().rank()));
  l.builder().cross_entropy(node.label(), l.unless_refused(logits), l.logical(node, 1),
                            {.smoothing = static_cast<float>(node.number("label_smoothing")),
                             .z = static_cast<float>(node.number("z_loss"))});
}

void lower_nll(Lowering& l, const NodeView& node) {
  lower_class_loss(l, node, l.in(node, 0, channels_last(node.shape().rank())), 0.0);
}

void lower_cross_entropy_soft(Lowering& l, const NodeView& node) {
  GraphBuilder& b = l.builder();
  const AxisOrder order = channels_last(node.shape().rank());
  const TensorId logs = log_softmax(b, node.label(), l.in(node, 0, order));
  const TensorId losses = against(b, node.label(), logs, l.in(node, 1, order));
  const TensorId sum =
      b.reduce(node.label(), Reduction::kSum, losses, logical_order(b.shape(losses).rank()), false);
  // PyTorch's mean with probabilities as targets divides by the number of rows, and not by a sum of
  // weights.
  const double rows = static_cast<double>(b.shape(losses).count());
  if (node.text("reduction") == "sum") return l.set_logical(node, sum);
  l.set_loss_rows(node, {.losses = losses});
  l.set_logical(node, b.unary(node.label(), Function::kMulScalar, sum,
                              {.a = static_cast<float>(1.0 / rows)}));
}

// --- Losses over elements. Each returns the losses of the elements.

struct Elements {
  GraphBuilder& b;
  std::string name;
  TensorId x, target;

  TensorId unary(Function f, TensorId t, FunctionParameters p = {}) const {
    return b.unary(name, f, t, p);
  }
  TensorId binary(Function f, TensorId s, TensorId t) const { return b.binary(name, f, s, t); }
  TensorId scaled(TensorId t, double factor) const {
    return b.scale(name, t, static_cast<float>(factor));
  }
  TensorId distance() const { return unary(Function::kAbs, binary(Function::kSub, x, target)); }
};

TensorId squares(const Elements& e, const NodeView&) {
  return e.unary(Function::kSquare, e.binary(Function::kSub, e.x, e.target));
}

TensorId distances(const Elements& e, const NodeView&) {
  return e.distance();
}

// 0.5 d^2 / beta below beta, and d - 0.5 beta above it. With beta = 0 nothing is below, as in
// PyTorch, where the loss then is the L1 loss.
TensorId smooth_distances(const Elements& e, double beta) {
  const TensorId d = e.distance();
  if (beta == 0.0) return d;
  const TensorId edge = e.b.constant(e.name, {1}, {static_cast<float>(beta)});
  return e.b.where(e.name, e.binary(Function::kLess, d, edge),
                   e.scaled(e.unary(Function::kSquare, d), 0.5 / beta),
                   e.unary(Function::kAddScalar, d, {.a = static_cast<float>(-0.5 * beta)}));
}

TensorId smooth_l1(const Elements& e, const NodeView& node) {
  return smooth_distances(e, node.number("beta"));
}

TensorId huber(const Elements& e, const NodeView& node) {
  const double delta = node.number("delta");
  // delta (0.5 d^2 / delta) = 0.5 d^2, and delta (d - 0.5 delta) beyond: Huber's loss is the smooth
  // one times delta.
  return e.scaled(smooth_distances(e, delta), delta);
}

// -(t max(log p, -100) + (1 - t) max(log(1 - p), -100)). PyTorch limits the logarithms in this way
// too, so that p = 0 or 1 gives a finite loss. Its derivative is (p - t) / max(p (1 - p), 1e-12),
// also where a logarithm is limited, so it is written here as the slope of a term that is 0.
TensorId binary_entropy(const Elements& e, const NodeView&) {
  const bool trained = e.b.needs_grad(e.x);
  const TensorId p = trained ? e.b.stop_gradient(e.name, e.x) : e.x;
  const auto logarithm = [&](TensorId probability) {
    // The logarithm of the least number is below -100, and that of 0 would not be finite.
    const TensorId positive =
        e.unary(Function::kClampMin, probability, {.a = std::numeric_limits<float>::denorm_min()});
    return e.unary(Function::kClampMin, e.unary(Function::kLog, positive), {.a = -100.0F});
  };
  const auto one_minus = [&](TensorId t) {
    return e.unary(Function::kAddScalar, e.unary(Function::kNegate, t), {.a = 1.0F});
  };
  const TensorId rest = one_minus(p);
  const TensorId yes = e.binary(Function::kMul, e.target, logarithm(p));
  const TensorId no = e.binary(Function::kMul, one_minus(e.target), logarithm(rest));
  const TensorId losses = e.unary(Function::kNegate, e.binary(Function::kAdd, yes, no));
  if (!trained) return losses;
  const TensorId divisor =
      e.unary(Function::kClampMin, e.binary(Function::kMul, p, rest), {.a = 1e-12F});
  const TensorId slope = e.binary(Function::kDiv, e.binary(Function::kSub, p, e.target), divisor);
  const TensorId fixed = e.b.needs_grad(slope) ? e.b.stop_gradient(e.name, slope) : slope;
  return e.binary(Function::kAdd, losses,
                  e.binary(Function::kMul, e.binary(Function::kSub, e.x, p), fixed));
}

// t (log t - x), and +0 where t is 0; or exp(t) (t - x) if the target is a logarithm. The logarithm
// is taken of 1 where t is not positive, because 0 times -inf would be NaN.
TensorId divergence(const Elements& e, const NodeView& node) {
  if (node.flag("log_target"))
    return e.binary(Function::kMul, e.unary(Function::kExp, e.target),
                    e.binary(Function::kSub, e.target, e.x));
  const TensorId zero = e.b.constant(e.name, {1}, {0.0F});
  const TensorId one = e.b.constant(e.name, {1}, {1.0F});
  const TensorId positive = e.binary(Function::kGreater, e.target, zero);
  const TensorId safe = e.b.where(e.name, positive, e.target, one);
  const TensorId own = e.binary(Function::kMul, e.target, e.unary(Function::kLog, safe));
  return e.binary(Function::kSub, own, e.binary(Function::kMul, e.target, e.x));
}

template <TensorId (*kLosses)(const Elements&, const NodeView&)>
void lower_elements(Lowering& l, const NodeView& node) {
  const Elements e{l.builder(), node.label(), l.logical(node, 0), l.logical(node, 1)};
  l.set_logical(node, total(l, node, kLosses(e, node)));
}

bool learns(Lowering& l, const NodeView& node, std::size_t slot) {
  return l.builder().needs_grad(l.logical(node, slot));
}

void lower_mse(Lowering& l, const NodeView& node) {
  // The operator gives no gradient of the target and needs the same number of rows for each sample.
  if (!is_last(l, node) || learns(l, node, 1) || node.shape().count() % l.batch() != 0)
    return lower_elements<squares>(l, node);
  l.builder().mse(node.label(), l.unless_refused(l.logical(node, 0)), l.logical(node, 1));
}

// softplus(x) - x t, where the positive part has the weight pos_weight:
// (1 - t) x + (1 + (pos_weight - 1) t) softplus(-x); all times weight. Written with |x| and
// max(x, 0) the loss would have another gradient at 0, where both have a kink.
TensorId logit_entropy(Lowering& l, const NodeView& node, const Elements& e) {
  TensorId log_part = e.unary(Function::kSoftplus, e.unary(Function::kNegate, e.x), {.a = 1.0F});
  if (node.has(3)) {
    const AxisOrder order = logical_order(node.shape().rank());
    const TensorId extra = e.unary(Function::kAddScalar, l.operand(node, 3, order), {.a = -1.0F});
    const TensorId factor =
        e.unary(Function::kAddScalar, e.binary(Function::kMul, extra, e.target), {.a = 1.0F});
    log_part = e.binary(Function::kMul, factor, log_part);
  }
  const TensorId no =
      e.unary(Function::kAddScalar, e.unary(Function::kNegate, e.target), {.a = 1.0F});
  const TensorId losses = e.binary(Function::kAdd, e.binary(Function::kMul, no, e.x), log_part);
  if (!node.has(2)) return losses;
  return e.binary(Function::kMul, losses, l.operand(node, 2, logical_order(node.shape().rank())));
}

void lower_bce_with_logits(Lowering& l, const NodeView& node) {
  const Elements e{l.builder(), node.label(), l.logical(node, 0), l.logical(node, 1)};
  const bool plain =
      !node.has(2) && !node.has(3) && !learns(l, node, 1) && node.shape().count() % l.batch() == 0;
  if (is_last(l, node) && plain)
    return e.b.bce_with_logits(e.name, l.unless_refused(e.x), e.target);
  l.set_logical(node, total(l, node, logit_entropy(l, node, e)));
}

// The gradient of what it reads is zero, so no operator is needed: trained_parameters() has counted
// the parameters, and live_nodes() has kept what moves statistics.
void lower_zero_loss(Lowering& l, const NodeView& node) {
  l.set_logical(node, l.builder().constant(node.label(), {1}, {0.0F}));
}

AttributeRule reduction_rule() {
  return text("reduction", {"mean", "sum"});
}

Kind element_loss(const char* name, const char* result, void (*lower)(Lowering&, const NodeView&),
                  std::vector<AttributeRule> attributes = {}) {
  Kind kind{.name = name,
            .result = result,
            .slots = {{"x", "f"}, {"target", "f"}},
            .attributes = std::move(attributes),
            .outputs = element_loss_outputs,
            .lower = lower};
  kind.attributes.push_back(reduction_rule());
  return kind;
}

std::vector<Slot> class_slots(const char* x) {
  return {{.name = x, .types = "f", .shape = "[n,c,...]"},
          {.name = "labels", .types = "i", .shape = "[n,...]"},
          {"weight", "f", true}};
}

AttributeRule ignore_index() {
  return integer("ignore_index", -0x7fffffff, 0x7fffffff).or_else(-100.0);
}

}  // namespace

std::vector<Kind> loss_kinds() {
  std::vector<Kind> kinds{
      {.name = "cross_entropy",
       .result = "as in PyTorch",
       .slots = class_slots("logits"),
       .attributes = {ignore_index(), number("label_smoothing", 0.0, 1.0).or_else(0.0),
                      reduction_rule()},
       .outputs = class_loss_outputs,
       .lower = lower_cross_entropy},
      {.name = "regularised_cross_entropy",
       .result = "the mean over the rows whose label is not negative",
       .slots = {{.name = "logits", .types = "f", .shape = "[n,c,...]"},
                 {.name = "labels", .types = "i", .shape = "[n,...]"}},
       .only_loss = true,
       .attributes = {number("label_smoothing", 0.0, 0.999999), number("z_loss", 0.0, 1.0)},
       .outputs = class_loss_outputs,
       .lower = lower_regularised_cross_entropy},
      {.name = "nll",
       .result = "as in PyTorch",
       .slots = class_slots("log_probs"),
       .attributes = {ignore_index(), reduction_rule()},
       .outputs = class_loss_outputs,
       .lower = lower_nll},
      {.name = "cross_entropy_soft",
       .result = "as in PyTorch",
       .slots = {{.name = "logits", .types = "f", .shape = "[n,c]"},
                 {.name = "targets", .types = "f", .shape = "[n,c]"}},
       .attributes = {reduction_rule()},
       .outputs = soft_outputs,
       .lower = lower_cross_entropy_soft},
      element_loss("mse", "as in PyTorch", lower_mse),
      element_loss("l1", "as in PyTorch", lower_elements<distances>),
      element_loss("smooth_l1", "as in PyTorch", lower_elements<smooth_l1>,
                   {number("beta", 0.0, 1e30)}),
      element_loss("huber", "as in PyTorch", lower_elements<huber>, {number("delta", 1e-30, 1e30)}),
      element_loss("bce", "as in PyTorch", lower_elements<binary_entropy>),
      element_loss("bce_with_logits", "as in PyTorch", lower_bce_with_logits),
      {.name = "kl_div",
       .result = "as in PyTorch",
       .slots = {{"x", "f"}, {"target", "f"}},
       .attributes = {flag("log_target").or_else(0.0),
                      text("reduction", {"batchmean", "mean", "sum"})},
       .outputs = element_loss_outputs,
       .lower = lower_elements<divergence>},
      {.name = kZeroLoss.data(),
       .result = "0",
       .slots = {{"x", "f"}},
       .outputs = [](const NodeView&) { return number_output(); },
       .lower = lower_zero_loss},
  };
  // bce_with_logits is the only loss over elements that takes weights.
  const auto weighted = std::ranges::find(kinds, std::string_view("bce_with_logits"), &Kind::name);
  weighted->slots.push_back({"weight", "f", true});
  weighted->slots.push_back({"pos_weight", "f", true});
  return kinds;
}

}  // namespace es::gpu
