// GraphBuilder: operators with parameters, and pooling.
#include "gpu/graph/builder.h"

namespace es::gpu {

TensorId GraphBuilder::conv2d(const std::string& name, TensorId x, const Conv2dOptions& o) {
  if (failed() || !dense_floats("conv2d", name, {x})) return 0;
  const TensorShape in = graph_.shape(x);
  if (o.out < 1 || o.kernel < 1 || o.stride < 1 || o.pad < 0 || o.groups < 1)
    return fail("conv2d", name,
                "out, kernel, stride and groups must be at least 1, pad at least 0");
  if (in.c % o.groups != 0 || o.out % o.groups != 0)
    return fail("conv2d", name,
                std::to_string(in.c) + " input and " + std::to_string(o.out) +
                    " output channels must be multiples of groups = " + std::to_string(o.groups));
  if (in.h + 2 * o.pad < o.kernel || in.w + 2 * o.pad < o.kernel)
    return fail("conv2d", name,
                "kernel " + std::to_string(o.kernel) + " with pad " + std::to_string(o.pad) +
                    " is larger than its input " + shape_text(in));
  Op op{.kind = OpKind::kConv2d, .name = name, .in = {x}};
  op.conv = {.n = in.n,
             .h = in.h,
             .w = in.w,
             .c = in.c,
             .oc = o.out,
             .kh = o.kernel,
             .kw = o.kernel,
             .stride = o.stride,
             .pad = o.pad,
             .groups = o.groups};
  const std::int64_t taps = o.kernel * o.kernel;
  const std::int64_t fan_in = in.c / o.groups * taps;
  op.weight = add_param(name + ".weight", {o.out, in.c / o.groups, o.kernel, o.kernel},
                        {.outer = o.out, .spatial = taps, .channels = in.c / o.groups},
                        weight_init(o.init, fan_in, o.out * taps));
  if (o.bias)
    op.bias = add_param(name + ".bias", {o.out}, {.outer = o.out}, bias_init(o.init, fan_in));
  const TensorShape y{in.n, op.conv.oh(), op.conv.ow(), o.out};
  return emit(std::move(op), y);
}

TensorId GraphBuilder::linear(const std::string& name, TensorId x, const LinearOptions& o) {
  if (failed() || !floats("linear", name, {x})) return 0;
  const TensorShape in = graph_.shape(x);
  if (o.out < 1) return fail("linear", name, "out must be at least 1");
  Op op{.kind = OpKind::kLinear, .name = name, .in = {x}};
  op.weight = add_param(name + ".weight", {o.out, in.c},
                        {.outer = o.out, .spatial = note(x).pixels, .channels = note(x).channels},
                        weight_init(o.init, in.c, o.out));
  if (o.bias)
    op.bias = add_param(name + ".bias", {o.out}, {.outer = o.out}, bias_init(o.init, in.c));
  return emit(std::move(op), {in.n, in.h, in.w, o.out});
}

// Adds the parameters and outputs that batch norm and layer norm have in common. `mean` and `istd`
// have one value for each channel (batch norm) or each row (layer norm).
TensorId GraphBuilder::normalise(Op op, TensorId x) {
  const TensorShape in = graph_.shape(x);
  const std::string name = op.name;
  op.weight = add_param(name + ".weight", {in.c}, {.outer = in.c}, {.constant = 1.0F});
  op.bias = add_param(name + ".bias", {in.c}, {.outer = in.c}, {});
  const bool by_row = op.kind == OpKind::kLayerNorm;
  const TensorId y = emit(std::move(op), in);
  for (int i = 0; i < 2 && !failed(); ++i)
    emit_extra(by_row ? TensorShape{in.n, in.h, in.w, 1} : TensorShape{1, 1, 1, in.c});
  return y;
}

TensorId GraphBuilder::batch_norm(const std::string& name, TensorId x, BatchNormOptions o) {
  if (failed() || !dense_floats("batch_norm", name, {x})) return 0;
  const TensorShape in = graph_.shape(x);
  if (in.n * in.h * in.w == 1)
    return fail("batch_norm", name,
                "its input " + shape_text(in) +
                    " has one value per channel, whose variance is 0: allowed are at least 2, by a "
                    "larger batch_size or larger images");
  const std::int64_t c = in.c;
  Op op{.kind = OpKind::kBatchNorm, .name = name, .in = {x}, .activation = o.activation};
  op.stats.mean = graph_.table.add_mean(name + ".running_mean", c);
  op.stats.variance = graph_.table.add_variance(name + ".running_var", c);
  return normalise(std::move(op), x);
}

TensorId GraphBuilder::layer_norm(const std::string& name, TensorId x, double eps) {
  if (failed() || !dense_floats("layer_norm", name, {x})) return 0;
  if (!(eps > 0.0)) return fail("layer_norm", name, "eps must be above 0");
  return normalise(
      {.kind = OpKind::kLayerNorm, .name = name, .in = {x}, .eps = static_cast<float>(eps)}, x);
}

TensorId GraphBuilder::embedding(const std::string& name, TensorId ids, std::int64_t rows,
                                 std::int64_t out, WeightInit init) {
  return lookup(name + ".weight", ids, rows, out, init);
}

TensorId GraphBuilder::lookup(const std::string& parameter, TensorId ids, std::int64_t rows,
                              std::int64_t out, WeightInit init) {
  if (failed()) return 0;
  const TensorShape in = graph_.shape(ids);
  if (rows < 1 || out < 1) return fail("embedding", parameter, "rows and out must be at least 1");
  if (tensor(ids).type != ElementType::kI32 || in.c != 1)
    return fail("embedding", parameter,
                "its input " + shape_text(in) + " must be integers [n,h,w,1]");
  if (note(ids).low < 0 || note(ids).high >= rows)
    return fail("embedding", parameter,
                "ids from " + std::to_string(note(ids).low) + " to " +
                    std::to_string(note(ids).high) + " do not fit its " + std::to_string(rows) +
                    " rows");
  Op op{.kind = OpKind::kEmbedding, .name = parameter, .in = {ids}};
  op.weight = add_param(parameter, {rows, out}, {.outer = rows, .channels = out},
                        embedding_init(init, rows, out));
  return emit(std::move(op), {in.n, in.h, in.w, out});
}

TensorId GraphBuilder::pool(OpKind kind, const std::string& name, TensorId x,
                            const PoolOptions& o) {
  if (failed() || !dense_floats(op_name(kind), name, {x})) return 0;
  const TensorShape in = graph_.shape(x);
  if (o.kernel < 1 || o.kernel > 16 || o.stride < 1 || o.pad < 0 || o.pad >= o.kernel)
    return fail(op_name(kind), name,
                "kernel must be 1 to 16, stride at least 1, pad 0 to kernel - 1");
  Op op{.kind = kind, .name = name, .in = {x}};
  op.pool = {.n = in.n,
             .h = in.h,
             .w = in.w,
             .c = in.c,
             .kh = o.kernel,
             .kw = o.kernel,
             .stride = o.stride,
             .pad = o.pad};
  // The last window must start inside the input, so that every window has a cell that is not
  // padding.
  const bool fits = in.h + 2 * o.pad >= o.kernel && in.w + 2 * o.pad >= o.kernel &&
                    (op.pool.oh() - 1) * o.stride < in.h + o.pad &&
                    (op.pool.ow() - 1) * o.stride < in.w + o.pad;
  if (!fits)
    return fail(
        op_name(kind), name,
        "a window of " + std::to_string(o.kernel) + " does not fit its input " + shape_text(in));
  const TensorShape y{in.n, op.pool.oh(), op.pool.ow(), in.c};
  return emit(std::move(op), y);
}

TensorId GraphBuilder::max_pool(const std::string& name, TensorId x, const PoolOptions& o) {
  const TensorId y = pool(OpKind::kMaxPool, name, x, o);
  if (!failed()) emit_extra(graph_.shape(y), ElementType::kU8);
  return y;
}

TensorId GraphBuilder::avg_pool(const std::string& name, TensorId x, const PoolOptions& o) {
  return pool(OpKind::kAvgPool, name, x, o);
}

TensorId GraphBuilder::adaptive_avg_pool(const std::string& name, TensorId x, std::int64_t h,
                                         std::int64_t w) {
  if (failed() || !dense_floats("adaptive_avg_pool", name, {x})) return 0;
  const TensorShape in = graph_.shape(x);
  if (h < 1 || w < 1) return fail("adaptive_avg_pool", name, "h and w must be at least 1");
  Op op{.kind = OpKind::kAdaptiveAvgPool, .name = name, .in = {x}};
  op.adaptive = {.n = in.n, .h = in.h, .w = in.w, .c = in.c, .oh = h, .ow = w};
  return emit(std::move(op), {in.n, h, w, in.c});
}

TensorId GraphBuilder::global_avg_pool(const std::string& name, TensorId x) {
  if (failed() || !dense_floats("global_avg_pool", name, {x})) return 0;
  const TensorShape in = graph_.shape(x);
  return emit({.kind = OpKind::kGlobalAvgPool, .name = name, .in = {x}}, {in.n, 1, 1, in.c});
}

}  // namespace es::gpu
