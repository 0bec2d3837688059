// GraphBuilder: softmax, batched products and attention.
#include <cmath>

#include "gpu/graph/builder.h"

namespace es::gpu {

TensorId GraphBuilder::softmax(const std::string& name, TensorId x) {
  if (failed() || !dense_floats("softmax", name, {x})) return 0;
  return emit({.kind = OpKind::kSoftmax, .name = name, .in = {x}}, graph_.shape(x));
}

TensorId GraphBuilder::matmul(const std::string& name, TensorId a, TensorId b, bool transpose_b) {
  if (failed() || !dense_floats("matmul", name, {a, b})) return 0;
  const TensorShape x = graph_.shape(a), y = graph_.shape(b);
  const std::int64_t inner = transpose_b ? y.c : y.w, columns = transpose_b ? y.w : y.c;
  if (x.n != y.n || x.h != y.h || x.c != inner)
    return fail("matmul", name,
                "shapes " + shape_text(x) + " and " + shape_text(y) + " must be [n,h,m,k] and " +
                    (transpose_b ? "[n,h,p,k]" : "[n,h,k,p]"));
  Op op{.kind = OpKind::kMatmul, .name = name, .in = {a, b}};
  op.matmul.gemm = {.m = x.w,
                    .n = columns,
                    .k = x.c,
                    .a_row = x.c,
                    .a_col = 1,
                    .b_row = transpose_b ? 1 : y.c,
                    .b_col = transpose_b ? y.c : 1,
                    .c_row = columns,
                    .c_col = 1};
  op.matmul.count = x.n * x.h;
  op.matmul.a_step = x.w * x.c;
  op.matmul.b_step = y.w * y.c;
  op.matmul.y_step = x.w * columns;
  return emit(std::move(op), {x.n, x.h, x.w, columns});
}

TensorId GraphBuilder::attention(const std::string& name, TensorId q, TensorId k, TensorId v,
                                 const AttentionOptions& o) {
  if (failed() || !dense_floats("attention", name, {q, k, v})) return 0;
  const TensorShape shape = graph_.shape(q);
  if (graph_.shape(k) != shape || graph_.shape(v) != shape)
    return fail("attention", name,
                "q " + shape_text(shape) + ", k " + shape_text(graph_.shape(k)) + " and v " +
                    shape_text(graph_.shape(v)) + " must have one shape");
  return attend(name, {.kind = OpKind::kAttention, .name = name, .in = {q, k, v}}, shape.c, o);
}

TensorId GraphBuilder::attention(const std::string& name, TensorId packed_qkv,
                                 const AttentionOptions& o) {
  if (failed() || !dense_floats("attention", name, {packed_qkv})) return 0;
  const TensorShape shape = graph_.shape(packed_qkv);
  if (shape.c % 3 != 0)
    return fail("attention", name,
                "the channels of " + shape_text(shape) + " must be q, k and v side by side");
  Op op{.kind = OpKind::kAttention, .name = name, .in = {packed_qkv}};
  op.attention_in.packed = true;
  return attend(name, std::move(op), shape.c / 3, o);
}

// `width` is heads * head_dim.
TensorId GraphBuilder::attend(const std::string& name, Op op, std::int64_t width,
                              const AttentionOptions& o) {
  const TensorShape in = graph_.shape(op.in[0]);
  if (in.w != 1 || o.heads < 1 || width % o.heads != 0)
    return fail("attention", name,
                "input " + shape_text(in) +
                    " must be [n,t,1,heads*d] with heads = " + std::to_string(o.heads));
  if (!(o.dropout >= 0.0 && o.dropout < 1.0))
    return fail("attention", name, "dropout must be at least 0 and below 1");
  AttentionShape& a = op.attention;
  a.batch = in.n;
  a.tokens = in.h;
  a.heads = o.heads;
  a.head_dim = width / o.heads;
  a.qkv_stride = in.c;
  a.y_stride = width;
  a.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(a.head_dim)));
  if (o.dropout > 0.0) a.dropout = next_dropout(o.dropout);
  if (!add_attention_extras(op, o)) return 0;
  const TensorId y = emit(std::move(op), {in.n, in.h, 1, width});
  if (!failed()) emit_extra({in.n, o.heads, in.h, in.h});
  return y;
}

bool GraphBuilder::add_attention_extras(Op& op, const AttentionOptions& o) {
  AttentionShape& a = op.attention;
  const auto append = [&](TensorId t) {
    op.in.push_back(t);
    return static_cast<std::int32_t>(op.in.size()) - 1;
  };
  if (o.bias != kNoTensor) {
    const TensorShape expected{1, a.heads, a.tokens, a.tokens};
    if (!dense_floats("attention", op.name, {o.bias})) return false;
    if (graph_.shape(o.bias) != expected)
      fail("attention", op.name,
           "bias " + shape_text(graph_.shape(o.bias)) + " must be " + shape_text(expected));
    op.attention_in.bias = append(o.bias);
  }
  if (o.mask != kNoTensor) {
    const TensorShape mask = graph_.shape(o.mask);
    if (!dense_floats("attention", op.name, {o.mask})) return false;
    if (mask != TensorShape{mask.n, 1, a.tokens, a.tokens} || a.batch % mask.n != 0 ||
        tensor(o.mask).needs_grad)
      fail("attention", op.name,
           "mask " + shape_text(mask) + " must be a constant [m,1," + std::to_string(a.tokens) +
               "," + std::to_string(a.tokens) + "] with a divisor m of " + std::to_string(a.batch) +
               " sequences");
    a.masks = mask.n;
    op.attention_in.mask = append(o.mask);
  }
  if (o.length != kNoTensor) {
    if (tensor(o.length).type != ElementType::kI32 || graph_.shape(o.length).count() != a.batch ||
        note(o.length).low < 1)
      fail("attention", op.name,
           "length " + shape_text(graph_.shape(o.length)) + " must be " + std::to_string(a.batch) +
               " integers of at least 1");
    op.attention_in.length = append(o.length);
  }
  return !failed();
}

}  // namespace es::gpu
