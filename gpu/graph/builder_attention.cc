// GraphBuilder: softmax, batched products and attention.
#include "gpu/canonical/attention_math.h"
#include "gpu/graph/builder.h"

namespace es::gpu {

TensorId GraphBuilder::softmax(const std::string& name, TensorId x) {
  return apply({.kind = OpKind::kSoftmax, .name = name, .in = {x}});
}

TensorId GraphBuilder::matmul(const std::string& name, TensorId a, TensorId b, bool transpose_b) {
  return apply({.kind = OpKind::kMatmul, .name = name, .in = {a, b}, .transpose_b = transpose_b});
}

TensorId GraphBuilder::attention(const std::string& name, TensorId q, TensorId k, TensorId v,
                                 const AttentionOptions& o) {
  if (failed() || !dense_floats("attention", name, {q, k, v})) return 0;
  const TensorShape shape = graph_.shape(q);
  if (graph_.shape(k) != shape || graph_.shape(v) != shape)
    return fail("attention", name,
                "q " + shape_text(shape) + ", k " + shape_text(graph_.shape(k)) + " and v " +
                    shape_text(graph_.shape(v)) + " must have one shape");
  return attend({.kind = OpKind::kAttention, .name = name, .in = {q, k, v}}, o);
}

TensorId GraphBuilder::attention(const std::string& name, TensorId packed_qkv,
                                 const AttentionOptions& o) {
  if (failed() || !dense_floats("attention", name, {packed_qkv})) return 0;
  const TensorShape shape = graph_.shape(packed_qkv);
  if (shape.row() % 3 != 0)
    return fail("attention", name,
                "the channels of " + shape_text(shape) + " must be q, k and v side by side");
  Op op{.kind = OpKind::kAttention, .name = name, .in = {packed_qkv}};
  op.attention_in.packed = true;
  return attend(std::move(op), o);
}

TensorId GraphBuilder::attention_by_head(const std::string& name, TensorId q, TensorId k,
                                         TensorId v, const AttentionOptions& o) {
  if (failed() || !dense_floats("attention", name, {q, k, v})) return 0;
  const TensorShape of_q = graph_.shape(q), of_k = graph_.shape(k);
  bool fits = of_q.rank() == 4 && of_k.rank() == 4 && graph_.shape(v) == of_k;
  fits = fits && of_q[0] == of_k[0] && of_q[1] % of_k[1] == 0 && of_q[3] == of_k[3];
  if (!fits || (o.causal && of_k[2] > of_q[2]))
    return fail("attention", name,
                "q " + shape_text(of_q) + ", k " + shape_text(of_k) + " and v " +
                    shape_text(graph_.shape(v)) +
                    " must be [n,heads,t,d] and twice [n,groups,s,d]" +
                    (o.causal ? " with s <= t" : ""));
  Op op{.kind = OpKind::kAttention, .name = name, .in = {q, k, v}};
  op.attention.by_head = true;
  op.attention.shared = of_q[1] / of_k[1];
  op.attention.key_tokens = of_k[2];
  AttentionOptions options = o;
  options.heads = of_k[1];
  return attend(std::move(op), options);
}

TensorId GraphBuilder::attend(Op op, const AttentionOptions& o) {
  // The shape rule runs before the extras are checked, because it completes tokens and batch, which
  // the expected shapes of the extras contain.
  op.attention.heads = o.heads;
  std::optional<std::vector<Tensor>> outputs = outputs_of(op);
  if (!outputs) return 0;
  if (!(o.dropout >= 0.0 && o.dropout < 1.0))
    return fail("attention", op.name, "dropout must be at least 0 and below 1");
  if (o.dropout > 0.0) op.attention.dropout = next_dropout(o.dropout);
  op.attention.causal = o.causal;
  if (o.scale) op.attention.scale = *o.scale;
  if (!add_attention_extras(op, o)) return 0;
  return append(std::move(op), *std::move(outputs));
}

bool GraphBuilder::add_attention_extras(Op& op, const AttentionOptions& o) {
  AttentionShape& a = op.attention;
  const std::int64_t heads = a.heads * a.shared, keys = keys_of(a);
  const auto append = [&](TensorId t) {
    op.in.push_back(t);
    return static_cast<std::int32_t>(op.in.size()) - 1;
  };
  if (o.bias != kNoTensor) {
    const TensorShape expected{1, heads, a.tokens, keys};
    if (!dense_floats("attention", op.name, {o.bias})) return false;
    if (graph_.shape(o.bias) != expected)
      fail("attention", op.name,
           "bias " + shape_text(graph_.shape(o.bias)) + " must be " + shape_text(expected));
    if (a.shared > 1 && tensor(o.bias).needs_grad)
      fail("attention", op.name, "a bias of heads that share keys must not depend on parameters");
    op.attention_in.bias = append(o.bias);
  }
  if (o.mask != kNoTensor) {
    const TensorShape mask = graph_.shape(o.mask);
    const bool four = mask.rank() == 4;
    const std::int64_t masks = mask.front(), rows = four ? mask[2] : 0, each = four ? mask[1] : 0;
    if (!dense_floats("attention", op.name, {o.mask})) return false;
    // Sequence b uses mask b mod m. The kernels compute no gradient of a mask, so a mask that
    // depends on parameters is refused here; a bias gets a gradient.
    const bool fits = mask == TensorShape{masks, each, rows, keys} &&
                      (rows == 1 || rows == a.tokens) && (each == 1 || each == heads) &&
                      a.batch % masks == 0;
    if (!fits || tensor(o.mask).needs_grad)
      fail("attention", op.name,
           "mask " + shape_text(mask) + " must be a constant [m,h,t," + std::to_string(keys) +
               "] with h = 1 or " + std::to_string(heads) + ", t = 1 or " +
               std::to_string(a.tokens) + ", and a divisor m of " + std::to_string(a.batch) +
               " sequences");
    a.masks = masks;
    a.mask_heads = each;
    a.mask_rows = rows;
    op.attention_in.mask = append(o.mask);
  }
  if (o.length != kNoTensor) {
    // A length of 0 would mask every key of a sequence, and no probabilities would remain.
    if (tensor(o.length).type != ElementType::kI32 || graph_.shape(o.length).count() != a.batch ||
        note(o.length).low < 1)
      fail("attention", op.name,
           "length " + shape_text(graph_.shape(o.length)) + " must be " + std::to_string(a.batch) +
               " integers of at least 1");
    op.attention_in.length = append(o.length);
  }
  if (o.first != kNoTensor) {
    if (tensor(o.first).type != ElementType::kI32 ||
        graph_.shape(o.first).count() != a.batch * a.tokens)
      fail("attention", op.name,
           "first " + shape_text(graph_.shape(o.first)) + " must be " +
               std::to_string(a.batch * a.tokens) + " integers");
    op.attention_in.first = append(o.first);
  }
  return !failed();
}

}  // namespace es::gpu
