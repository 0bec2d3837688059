// Attention.
#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/import/kind.h"
#include "gpu/import/lowering.h"
#include "gpu/import/shape_rules.h"

namespace es::gpu {
namespace {

// A mask may have fewer sequences than q, which then use them in turn. Returns its shape without
// this axis.
TensorShape one_period(const TensorShape& mask, std::int64_t sequences) {
  const bool in_turn = mask.rank() == 4 && sequences % mask[0] == 0;
  return in_turn ? with_extent(mask, 0, 1) : mask;
}

Outputs attention_outputs(const NodeView& node) {
  const TensorShape &q = node.shape(0), &k = node.shape(1), &v = node.shape(2);
  bool fits = q.rank() == 4 && k.rank() == 4 && v.rank() == 4;
  // Each group of keys and values serves q[1] / k[1] heads (grouped-query attention).
  fits = fits && q[0] == k[0] && k[0] == v[0] && k[1] == v[1] && q[1] % k[1] == 0;
  fits = fits && k[2] == v[2] && q[3] == k[3];
  if (!fits)
    return usage_error("q " + shape_text(q) + ", k " + shape_text(k) + " and v " + shape_text(v) +
                       " must be [b,h,t,d], [b,g,s,d] and [b,g,s,e]");
  const TensorShape scores{q[0], q[1], q[2], k[2]};
  if (node.has(3) && !broadcasts_to(one_period(node.shape(3), q[0]), scores))
    return usage_error("mask " + shape_text(node.shape(3)) + " must fit " + shape_text(scores));
  if (node.has(4) && !broadcasts_to(node.shape(4), with_extent(scores, 0, 1)))
    return usage_error("bias " + shape_text(node.shape(4)) + " must fit " +
                       shape_text(with_extent(scores, 0, 1)));
  if (node.has(5) && node.shape(5) != TensorShape{q[0]})
    return usage_error("length " + shape_text(node.shape(5)) + " must be " + shape_text({q[0]}));
  if (node.has(6) && node.shape(6) != TensorShape{q[0], q[2]})
    return usage_error("first " + shape_text(node.shape(6)) + " must be " +
                       shape_text({q[0], q[2]}));
  return one_output(ValueType::kF32, with_extent(q, 3, v[3]));
}

// Builds attention from products and a softmax, or from the engine's operator.
class AttentionLowering {
 public:
  AttentionLowering(Lowering& l, const NodeView& node)
      : l_(l),
        b_(l.builder()),
        node_(node),
        name_(node.label()),
        q_(node.shape(0)),
        k_(node.shape(1)),
        v_(node.shape(2)) {}

  void run() { fused() ? run_fused() : run_products(); }

 private:
  // The engine's operator stores no scores. What it cannot do is built from products and a softmax,
  // with the same bits (docs/reference/operators.md): values that are wider or narrower than keys,
  // keys that no query sees, and gradients of a mask, or of the bias of heads that share keys. So
  // is one query for each head, whose scores are no matrix, so that keys are not copied for it.
  bool fused() const {
    if (q_ == k_ && q_ == v_) return !trained(3);
    if (k_ != v_ || q_[2] == 1 || trained(3)) return false;
    if (node_.flag("causal") && k_[2] > q_[2]) return false;
    return q_[1] == k_[1] || !trained(4);
  }
  bool trained(std::size_t slot) const {
    return node_.has(slot) && b_.needs_grad(l_.stored(node_.input(slot)).tensor);
  }

  // Returns the mask that is added to the scores, of rank 4; kNoTensor: there is none.
  TensorId mask() {
    if (!node_.has(3)) return kNoTensor;
    const TensorId mask = l_.operand(node_, 3, logical_order(4));
    return node_.in(3).type == ValueType::kBool ? minus_infinity_unless(mask) : mask;
  }

  // The same with a mask for a causal attention.
  TensorId added() {
    const TensorId mask = this->mask();
    if (!node_.flag("causal")) return mask;
    const TensorId causal = minus_infinity_unless(b_.binary(
        name_, Function::kLessEqual, numbers({1, 1, 1, k_[2]}), numbers({1, 1, q_[2], 1})));
    return mask == kNoTensor ? causal : b_.binary(name_, Function::kAdd, mask, causal);
  }

  // A true element of a mask means that the key is seen, as in PyTorch's
  // scaled_dot_product_attention.
  TensorId minus_infinity_unless(TensorId condition) {
    const TensorId zero = b_.constant(name_, {1}, {0.0F});
    const TensorId low = b_.constant(name_, {1}, {-std::numeric_limits<float>::infinity()});
    return b_.where(name_, condition, zero, low);
  }

  // A mask with fewer sequences than the scores, repeated: sequence b has mask b mod m, so the
  // masks as a whole are repeated, and not each of them.
  TensorId in_turn(TensorId mask) {
    const TensorShape own = b_.shape(mask);
    if (own[0] == 1 || own[0] == q_[0]) return mask;
    const TensorId period = b_.reshape(name_, mask, {1, own[0], own.count(1, 4)});
    const TensorId all = b_.expand(name_, period, {q_[0] / own[0], own[0], own.count(1, 4)});
    return b_.reshape(name_, all, with_extent(own, 0, q_[0]));
  }

  // Minus infinity for keys beyond the length of their sequence.
  TensorId within_length(TensorId scores) {
    const TensorId keys = b_.reshape(name_, b_.numbers(name_, k_[2]), {1, 1, 1, k_[2]});
    const TensorId length = b_.reshape(name_, l_.logical(node_, 5), {q_[0], 1, 1, 1});
    const TensorId low = b_.constant(name_, {1}, {-std::numeric_limits<float>::infinity()});
    return b_.where(name_, b_.binary(name_, Function::kLess, keys, length), scores, low);
  }

  // Minus infinity for keys before the first one of their query.
  TensorId from_first(TensorId scores) {
    const TensorId keys = b_.reshape(name_, b_.numbers(name_, k_[2]), {1, 1, 1, k_[2]});
    const TensorId first = b_.reshape(name_, l_.logical(node_, 6), {q_[0], 1, q_[2], 1});
    const TensorId low = b_.constant(name_, {1}, {-std::numeric_limits<float>::infinity()});
    return b_.where(name_, b_.binary(name_, Function::kLess, keys, first), low, scores);
  }

  // 1, 2, 3, ... along the only long axis. The running sum is computed in the step, so the file and
  // the model store no list of this length. Floats are exact up to 2^24.
  TensorId numbers(const TensorShape& shape) {
    const TensorId ones = b_.expand(name_, b_.constant(name_, {1}, {1.0F}), {shape.count()});
    return b_.reshape(name_, b_.cumsum(name_, ones, 0), shape);
  }

  void run_fused() {
    const AxisOrder order{0, 2, 1, 3};
    const auto tokens = [&](std::size_t slot) {
      // [b,h,t,d] in the order [b,t,h,d] has the columns of all heads of a token side by side, as
      // the operator reads them.
      return b_.reshape(name_, l_.in(node_, slot, order), {q_[0], q_[2], 1, q_[1] * q_[3]});
    };
    AttentionOptions options{.heads = q_[1],
                             .scale = static_cast<float>(node_.number("scale")),
                             .causal = node_.flag("causal"),
                             .dropout = node_.number("dropout")};
    if (node_.has(4))
      options.bias =
          b_.expand(name_, l_.operand(node_, 4, logical_order(4)), {1, q_[1], q_[2], k_[2]});
    if (node_.has(5)) options.length = l_.logical(node_, 5);
    if (node_.has(6)) options.first = l_.logical(node_, 6);
    const TensorId mask = this->mask();
    if (mask != kNoTensor) {
      const TensorShape own = b_.shape(mask);
      options.mask = b_.expand(name_, mask, {own[0], own[1], own[2], k_[2]});
    }
    b_.set_site(static_cast<std::uint32_t>(node_.integer("site")));
    if (q_ == k_)
      l_.set(node_, b_.attention(name_, tokens(0), tokens(1), tokens(2), options), order);
    else
      l_.set_logical(node_, b_.attention_by_head(name_, l_.logical(node_, 0), l_.logical(node_, 1),
                                                 l_.logical(node_, 2), options));
  }

  // Heads that share keys are rows of one product, so the keys are not repeated.
  void run_products() {
    const std::int64_t groups = k_[1], rows = q_[1] / groups * q_[2];
    const TensorId q = b_.reshape(name_, l_.logical(node_, 0), {q_[0], groups, rows, q_[3]});
    TensorId scores = b_.matmul(name_, q, l_.logical(node_, 1), true);
    scores = b_.scale(name_, scores, static_cast<float>(node_.number("scale")));
    scores = b_.reshape(name_, scores, {q_[0], q_[1], q_[2], k_[2]});
    if (node_.has(4))
      scores = b_.binary(name_, Function::kAdd, scores, l_.operand(node_, 4, logical_order(4)));
    const TensorId mask = added();
    if (mask != kNoTensor) scores = b_.binary(name_, Function::kAdd, scores, in_turn(mask));
    if (node_.has(5)) scores = within_length(scores);
    if (node_.has(6)) scores = from_first(scores);
    TensorId probabilities = b_.softmax(name_, scores);
    b_.set_site(static_cast<std::uint32_t>(node_.integer("site")));
    probabilities = b_.dropout(name_, probabilities, node_.number("dropout"));
    probabilities = b_.reshape(name_, probabilities, {q_[0], groups, rows, k_[2]});
    l_.set_logical(node_, b_.matmul(name_, probabilities, l_.logical(node_, 2)));
  }

  Lowering& l_;
  GraphBuilder& b_;
  const NodeView& node_;
  const std::string name_;
  const TensorShape &q_, &k_, &v_;
};

void lower_attention(Lowering& l, const NodeView& node) {
  AttentionLowering(l, node).run();
}

}  // namespace

std::vector<Kind> attention_kinds() {
  return {
      {.name = "attention",
       .result = "softmax of the scaled q times k, times v, for each head",
       .slots = {{.name = "q", .types = "f", .shape = "[b,h,t,d]"},
                 {.name = "k", .types = "f", .shape = "[b,g,s,d]"},
                 {.name = "v", .types = "f", .shape = "[b,g,s,e]"},
                 {"mask", "fb", true},
                 {"bias", "f", true},
                 {"length", "i", true},
                 {"first", "i", true}},
       .attributes = {flag("causal").or_else(0.0), number("scale"),
                      number("dropout", 0.0, 0.999999).or_else(0.0),
                      integer("site", 0, 0x7fffffff).or_else(0.0)},
       .outputs = attention_outputs,
       .lower = lower_attention},
  };
}

}  // namespace es::gpu
