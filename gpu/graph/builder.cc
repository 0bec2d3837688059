#include "gpu/graph/builder.h"

#include <cmath>

namespace es::gpu {
namespace {

// Largest count for which offsets and kernel indices stay far away from overflow.
constexpr std::int64_t kTensorFloatsMax = std::int64_t{1} << 40;

ParamInit uniform_init(double bound) {
  return {.bound = static_cast<float>(bound)};
}

ParamInit weight_init(WeightInit kind, std::int64_t fan_in, std::int64_t fan_out) {
  // sqrt and division are exactly rounded by IEEE-754, so the bound has the same bits everywhere.
  if (kind == WeightInit::kFanOutRelu)
    return uniform_init(std::sqrt(6.0 / static_cast<double>(fan_out)));
  return uniform_init(1.0 / std::sqrt(static_cast<double>(fan_in)));
}

}  // namespace

GraphBuilder::GraphBuilder(std::string model, TensorShape input) {
  graph_.name = std::move(model);
  const bool positive = input.n > 0 && input.h > 0 && input.w > 0 && input.c > 0;
  if (!positive || input.count() > kTensorFloatsMax) {
    error_ = usage_error("model " + graph_.name + ": input shape " + shape_text(input) +
                         ": every dimension must be at least 1 and the tensor addressable");
    input = {};
  }
  graph_.input = add_tensor(input, /*needs_grad=*/false);
}

TensorId GraphBuilder::add_tensor(TensorShape shape, bool needs_grad, ElementType type) {
  graph_.tensors.push_back({shape, type, needs_grad});
  flattened_from_.emplace_back(1, shape.c);
  return static_cast<TensorId>(graph_.tensors.size() - 1);
}

TensorId GraphBuilder::fail(OpKind kind, const std::string& name, const std::string& what) {
  if (!failed())
    error_ =
        usage_error("model " + graph_.name + ": " + op_name(kind) + " \"" + name + "\": " + what);
  return graph_.input;  // a valid tensor: later calls return early
}

TensorId GraphBuilder::emit(Op op, TensorShape y) {
  bool needs_grad = op.weight != kNoParam;
  for (const TensorId t : op.in) needs_grad = needs_grad || graph_.tensors[t].needs_grad;
  op.out = {add_tensor(y, needs_grad)};
  graph_.ops.push_back(std::move(op));
  return graph_.ops.back().out[0];
}

ParamId GraphBuilder::add_param(const std::string& name, std::vector<std::int64_t> torch_shape,
                                ParamOrder order, ParamInit init) {
  return graph_.table.add(
      {.name = name, .torch_shape = std::move(torch_shape), .order = order, .init = init});
}

TensorId GraphBuilder::conv2d(const std::string& name, TensorId x, const Conv2dOptions& o) {
  if (failed()) return x;
  const TensorShape in = graph_.shape(x);
  if (o.out < 1 || o.kernel < 1 || o.stride < 1 || o.pad < 0 || o.groups < 1)
    return fail(OpKind::kConv2d, name,
                "out, kernel, stride and groups must be at least 1, pad at least 0");
  if (in.c % o.groups != 0 || o.out % o.groups != 0)
    return fail(OpKind::kConv2d, name,
                std::to_string(in.c) + " input and " + std::to_string(o.out) +
                    " output channels must be multiples of groups = " + std::to_string(o.groups));
  if (in.h + 2 * o.pad < o.kernel || in.w + 2 * o.pad < o.kernel)
    return fail(OpKind::kConv2d, name,
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
    op.bias = add_param(name + ".bias", {o.out}, {.outer = o.out},
                        weight_init(WeightInit::kPytorchDefault, fan_in, 0));
  return emit(op, {in.n, op.conv.oh(), op.conv.ow(), o.out});
}

TensorId GraphBuilder::linear(const std::string& name, TensorId x, const LinearOptions& o) {
  if (failed()) return x;
  const TensorShape in = graph_.shape(x);
  if (in.h != 1 || in.w != 1)
    return fail(OpKind::kLinear, name,
                "input " + shape_text(in) + " is an image; flatten it first");
  if (o.out < 1) return fail(OpKind::kLinear, name, "out must be at least 1");
  const auto [spatial, channels] = flattened_from_[x];
  Op op{.kind = OpKind::kLinear, .name = name, .in = {x}};
  op.weight = add_param(name + ".weight", {o.out, in.c},
                        {.outer = o.out, .spatial = spatial, .channels = channels},
                        weight_init(WeightInit::kPytorchDefault, in.c, o.out));
  if (o.bias)
    op.bias = add_param(name + ".bias", {o.out}, {.outer = o.out},
                        weight_init(WeightInit::kPytorchDefault, in.c, 0));
  return emit(op, {in.n, 1, 1, o.out});
}

TensorId GraphBuilder::batch_norm(const std::string& name, TensorId x, ReluFused fused) {
  if (failed()) return x;
  const TensorShape in = graph_.shape(x);
  if (flattened_from_[x].first > 1)
    return fail(OpKind::kBatchNorm, name,
                "input is a flattened image; normalise before flattening");
  Op op{.kind = OpKind::kBatchNorm, .name = name, .in = {x}, .relu = fused.relu};
  op.weight = add_param(name + ".weight", {in.c}, {.outer = in.c}, {.constant = 1.0F});
  op.bias = add_param(name + ".bias", {in.c}, {.outer = in.c}, {});
  op.stats.mean = graph_.table.add_stat(name + ".running_mean", in.c, 0.0F);
  op.stats.variance = graph_.table.add_stat(name + ".running_var", in.c, 1.0F);
  const TensorId y = emit(op, in);
  const TensorId mean = add_tensor({1, 1, 1, in.c}, false);
  const TensorId istd = add_tensor({1, 1, 1, in.c}, false);
  graph_.ops.back().out = {y, mean, istd};
  return y;
}

TensorId GraphBuilder::relu(const std::string& name, TensorId x) {
  if (failed()) return x;
  const TensorId y = emit({.kind = OpKind::kRelu, .name = name, .in = {x}}, graph_.shape(x));
  flattened_from_[y] = flattened_from_[x];
  return y;
}

TensorId GraphBuilder::add(const std::string& name, TensorId a, TensorId b, ReluFused fused) {
  if (failed()) return a;
  if (graph_.shape(a) != graph_.shape(b))
    return fail(OpKind::kAdd, name,
                "shapes " + shape_text(graph_.shape(a)) + " and " + shape_text(graph_.shape(b)) +
                    " must be equal");
  if (flattened_from_[a] != flattened_from_[b])
    return fail(OpKind::kAdd, name, "its inputs are flattened from different image shapes");
  const TensorId y =
      emit({.kind = OpKind::kAdd, .name = name, .in = {a, b}, .relu = fused.relu}, graph_.shape(a));
  flattened_from_[y] = flattened_from_[a];
  return y;
}

TensorId GraphBuilder::pool(OpKind kind, const std::string& name, TensorId x,
                            const PoolOptions& o) {
  if (failed()) return x;
  const TensorShape in = graph_.shape(x);
  if (o.kernel < 1 || o.kernel > 16 || o.stride < 1 || o.pad < 0 || o.pad >= o.kernel)
    return fail(kind, name, "kernel must be 1 to 16, stride at least 1, pad 0 to kernel - 1");
  Op op{.kind = kind, .name = name, .in = {x}};
  op.pool = {.n = in.n,
             .h = in.h,
             .w = in.w,
             .c = in.c,
             .kh = o.kernel,
             .kw = o.kernel,
             .stride = o.stride,
             .pad = o.pad};
  // The last window starts inside the input, so that every window has a real cell.
  const bool fits = in.h + 2 * o.pad >= o.kernel && in.w + 2 * o.pad >= o.kernel &&
                    (op.pool.oh() - 1) * o.stride < in.h + o.pad &&
                    (op.pool.ow() - 1) * o.stride < in.w + o.pad;
  if (!fits)
    return fail(
        kind, name,
        "a window of " + std::to_string(o.kernel) + " does not fit its input " + shape_text(in));
  return emit(op, {in.n, op.pool.oh(), op.pool.ow(), in.c});
}

TensorId GraphBuilder::max_pool(const std::string& name, TensorId x, const PoolOptions& o) {
  const TensorId y = pool(OpKind::kMaxPool, name, x, o);
  if (failed()) return y;
  const TensorId argmax = add_tensor(graph_.shape(y), false, ElementType::kU8);
  graph_.ops.back().out = {y, argmax};
  return y;
}

TensorId GraphBuilder::avg_pool(const std::string& name, TensorId x, const PoolOptions& o) {
  return pool(OpKind::kAvgPool, name, x, o);
}

TensorId GraphBuilder::global_avg_pool(const std::string& name, TensorId x) {
  if (failed()) return x;
  const TensorShape in = graph_.shape(x);
  return emit({.kind = OpKind::kGlobalAvgPool, .name = name, .in = {x}}, {in.n, 1, 1, in.c});
}

TensorId GraphBuilder::flatten(const std::string& name, TensorId x) {
  if (failed()) return x;
  const TensorShape in = graph_.shape(x);
  const TensorId y =
      emit({.kind = OpKind::kView, .name = name, .in = {x}}, {in.n, 1, 1, in.h * in.w * in.c});
  flattened_from_[y] = {in.h * in.w, in.c};
  return y;
}

// An operator that nothing reads has no gradient.
void GraphBuilder::check_all_used(TensorId logits) {
  std::vector<bool> used(graph_.tensors.size(), false);
  used[logits] = true;
  for (const Op& op : graph_.ops)
    for (const TensorId t : op.in) used[t] = true;
  for (const Op& op : graph_.ops)
    if (!used[op.out[0]]) fail(op.kind, op.name, "nothing reads its output");
}

Result<Graph> GraphBuilder::finish(TensorId logits) {
  if (failed()) return *error_;
  check_all_used(logits);
  const TensorShape in = graph_.shape(logits);
  if (in.h != 1 || in.w != 1 || in.c < 2) {
    fail(OpKind::kSoftmaxXent, "loss",
         "logits " + shape_text(in) + " must be [batch,1,1,classes] with at least 2 classes");
  }
  if (failed()) return *error_;
  const TensorId probs = emit({.kind = OpKind::kSoftmaxXent, .name = "loss", .in = {logits}}, in);
  graph_.logits = logits;
  graph_.row_loss = add_tensor({in.n, 1, 1, 1}, false);
  graph_.mean_loss = add_tensor({1, 1, 1, 1}, false);
  graph_.ops.back().out = {probs, graph_.row_loss, graph_.mean_loss};
  return std::move(graph_);
}

}  // namespace es::gpu
