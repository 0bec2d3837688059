// GraphBuilder: operators with parameters, and pooling.
#include <limits>

#include "gpu/graph/builder.h"

namespace es::gpu {
namespace {

PoolShape pool_shape(const PoolOptions& o) {
  // The values 0, 0 and -1 of the width mean that it is that of the height. The default of the
  // padding is -1 because 0 is a padding.
  return {.kh = o.kernel,
          .kw = o.kernel_w == 0 ? o.kernel : o.kernel_w,
          .stride_h = o.stride,
          .stride_w = o.stride_w == 0 ? o.stride : o.stride_w,
          .pad_h = o.pad,
          .pad_w = o.pad_w < 0 ? o.pad : o.pad_w,
          .end_h = o.end_h,
          .end_w = o.end_w};
}

}  // namespace

TensorId GraphBuilder::conv2d(const std::string& name, TensorId x, const Conv2dOptions& o) {
  Op op{.kind = OpKind::kConv2d, .name = name, .in = {x}};
  op.conv = {.oc = o.out,
             .kh = o.kernel,
             .kw = o.kernel,
             .stride = o.stride,
             .pad = o.pad,
             .groups = o.groups};
  std::optional<std::vector<Tensor>> outputs = outputs_of(op);
  if (!outputs) return 0;
  const std::int64_t taps = o.kernel * o.kernel, channels = op.conv.c / o.groups;
  // PyTorch counts the fans of a convolution by the weight's shape [o,c/groups,kh,kw]: an output
  // reads c/groups channels at each tap, and the fan out is o times the taps, without regard to
  // groups.
  const std::int64_t fan_in = channels * taps;
  op.weight = add_param(name + ".weight", {o.out, channels, o.kernel, o.kernel},
                        // The engine stores a kernel as [o,kh,kw,c]. This order tells the import
                        // and the export of weights how to permute PyTorch's [o,c,kh,kw].
                        {.outer = o.out, .spatial = taps, .channels = channels},
                        weight_init(o.init, fan_in, o.out * taps));
  if (o.bias)
    op.bias = add_param(name + ".bias", {o.out}, {.outer = o.out}, bias_init(o.init, fan_in));
  return append(std::move(op), *std::move(outputs));
}

TensorId GraphBuilder::linear(const std::string& name, TensorId x, const LinearOptions& o) {
  Op op{.kind = OpKind::kLinear, .name = name, .in = {x}, .features = o.out};
  std::optional<std::vector<Tensor>> outputs = outputs_of(op);
  if (!outputs) return 0;
  const std::int64_t in = shape(x).row();
  op.weight = add_param(name + ".weight", {o.out, in},
                        // After a flatten() the columns are in the order [h,w,c], and PyTorch's in
                        // the order [c,h,w]. The numbers of pixels and channels are part of the
                        // parameter's order, so state dicts have PyTorch's order.
                        {.outer = o.out, .spatial = note(x).pixels, .channels = note(x).channels},
                        weight_init(o.init, in, o.out));
  if (o.bias) op.bias = add_param(name + ".bias", {o.out}, {.outer = o.out}, bias_init(o.init, in));
  return append(std::move(op), *std::move(outputs));
}

// Adds the parameters that batch norm and layer norm have in common.
TensorId GraphBuilder::normalise(Op op, std::int64_t channels, std::vector<Tensor> outputs) {
  op.weight = add_param(op.name + ".weight", {channels}, {.outer = channels}, {.constant = 1.0F});
  op.bias = add_param(op.name + ".bias", {channels}, {.outer = channels}, {});
  return append(std::move(op), std::move(outputs));
}

TensorId GraphBuilder::parameter_tensor(ParamId param, const TensorShape& shape, bool trained) {
  if (failed()) return 0;
  const ParamInfo& info = graph_.table[param];
  if (shape.count() != info.count)
    return fail("parameter", info.name, shape_text(shape) + " is not its shape");
  Op op{.kind = OpKind::kParameter, .name = info.name, .weight = param};
  // There is no gradient for a parameter that is not trained: it may have no place in the gradient
  // array.
  op.out = {add_tensor(shape, trained)};
  push(std::move(op));
  return graph_.ops.back().out[0];
}

TensorId GraphBuilder::state(const std::string& name, std::int64_t place, const TensorShape& shape,
                             ElementType type) {
  if (failed()) return 0;
  Op op{.kind = OpKind::kState, .name = name, .state = place};
  op.out = {add_tensor(shape, false, type)};
  push(std::move(op));
  return any_integer(graph_.ops.back().out[0]);
}

TensorId GraphBuilder::set_state(const std::string& name, std::int64_t place, TensorId x) {
  const TensorId y = apply({.kind = OpKind::kSetState, .name = name, .in = {x}, .state = place});
  return failed() ? 0 : any_integer(y);
}

// The range of the integers in a state is not known: a file may give its first content.
TensorId GraphBuilder::any_integer(TensorId t) {
  note(t).low = std::numeric_limits<std::int32_t>::min();
  note(t).high = std::numeric_limits<std::int32_t>::max();
  return t;
}

BatchNormStats GraphBuilder::statistics(std::string mean, std::string variance,
                                        std::int64_t channels) {
  BatchNormStats stats;
  stats.mean = graph_.table.add_mean(std::move(mean), channels);
  stats.variance = graph_.table.add_variance(std::move(variance), channels);
  return stats;
}

TensorId GraphBuilder::batch_norm(const std::string& name, TensorId x, BatchNormOptions o) {
  Op op{.kind = OpKind::kBatchNorm, .name = name, .in = {x}, .activation = o.activation};
  op.eps = kBatchNormEps;
  op.momentum = kBatchNormMomentum;
  std::optional<std::vector<Tensor>> outputs = outputs_of(op);
  if (!outputs) return 0;
  const std::int64_t channels = shape(x).row();
  op.stats = statistics(name + ".running_mean", name + ".running_var", channels);
  return normalise(std::move(op), channels, *std::move(outputs));
}

TensorId GraphBuilder::layer_norm(const std::string& name, TensorId x, double eps) {
  Op op{.kind = OpKind::kLayerNorm, .name = name, .in = {x}, .eps = static_cast<float>(eps)};
  std::optional<std::vector<Tensor>> outputs = outputs_of(op);
  return outputs ? normalise(std::move(op), shape(x).row(), *std::move(outputs)) : 0;
}

TensorId GraphBuilder::embedding(const std::string& name, TensorId ids, std::int64_t rows,
                                 std::int64_t out, WeightInit init) {
  return lookup(name + ".weight", ids, rows, out, init);
}

TensorId GraphBuilder::lookup(const std::string& parameter, TensorId ids, std::int64_t rows,
                              std::int64_t out, WeightInit init) {
  if (failed()) return 0;
  if (rows < 1 || out < 1) return fail("embedding", parameter, "rows and out must be at least 1");
  Op op{.kind = OpKind::kEmbedding, .name = parameter, .in = {ids}, .features = out};
  std::optional<std::vector<Tensor>> outputs = outputs_of(op);
  if (!outputs) return 0;
  // The kernels read the table at the ids without a check. Field ranges are checked for each batch
  // before the step, and the ranges of computed ids follow from them.
  if (note(ids).low < 0 || note(ids).high >= rows)
    return fail("embedding", parameter,
                "ids from " + std::to_string(note(ids).low) + " to " +
                    std::to_string(note(ids).high) + " do not fit its " + std::to_string(rows) +
                    " rows");
  op.weight = add_param(parameter, {rows, out}, {.outer = rows, .channels = out},
                        embedding_init(init, rows, out));
  return append(std::move(op), *std::move(outputs));
}

TensorId GraphBuilder::max_pool(const std::string& name, TensorId x, const PoolOptions& o) {
  return apply({.kind = OpKind::kMaxPool, .name = name, .in = {x}, .pool = pool_shape(o)});
}

TensorId GraphBuilder::avg_pool(const std::string& name, TensorId x, const PoolOptions& o) {
  return apply({.kind = OpKind::kAvgPool, .name = name, .in = {x}, .pool = pool_shape(o)});
}

TensorId GraphBuilder::adaptive_avg_pool(const std::string& name, TensorId x, std::int64_t h,
                                         std::int64_t w) {
  Op op{.kind = OpKind::kAdaptiveAvgPool, .name = name, .in = {x}};
  op.adaptive.oh = h;
  op.adaptive.ow = w;
  return apply(std::move(op));
}

TensorId GraphBuilder::global_avg_pool(const std::string& name, TensorId x) {
  return apply({.kind = OpKind::kGlobalAvgPool, .name = name, .in = {x}});
}

}  // namespace es::gpu
