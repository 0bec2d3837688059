// Pooling. The work is divided by images.
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

// --- Shape rules.

Result<TensorShape> pooled(const Graph& graph, Op& op) {
  const ImageShape in = image_of(graph.shape(op.in[0]));
  PoolShape& s = op.pool;
  if (s.kh < 1 || s.kw < 1 || s.stride_h < 1 || s.stride_w < 1 || s.pad_h < 0 || s.pad_w < 0 ||
      s.pad_h >= s.kh || s.pad_w >= s.kw)
    return usage_error("kernel and stride must be at least 1, pad 0 to kernel - 1");
  s.n = in.n;
  s.h = in.h;
  s.w = in.w;
  s.c = in.c;
  // The last window must start inside the input, so that every window has a cell that is not
  // padding.
  const bool fits = s.h + 2 * s.pad_h + s.end_h >= s.kh && s.w + 2 * s.pad_w + s.end_w >= s.kw &&
                    (s.oh() - 1) * s.stride_h < s.h + s.pad_h &&
                    (s.ow() - 1) * s.stride_w < s.w + s.pad_w;
  if (!fits)
    return usage_error("a window of " + std::to_string(s.kh) + " does not fit its input " +
                       shape_text(in));
  return TensorShape{s.n, s.oh(), s.ow(), s.c};
}

OutputTensors max_pool_outputs(const Graph& graph, Op& op) {
  const Result<TensorShape> y = pooled(graph, op);
  if (!y) return y.error();
  // The winner of a window is stored as one byte, the number of its cell.
  if (op.pool.kh > kMaxPoolCells / op.pool.kw)
    return usage_error("a window of " + std::to_string(op.pool.kh) + " times " +
                       std::to_string(op.pool.kw) + " has more than " +
                       std::to_string(kMaxPoolCells) + " cells");
  return std::vector<Tensor>{{*y}, {*y, ElementType::kU8}};
}

OutputTensors avg_pool_outputs(const Graph& graph, Op& op) {
  const Result<TensorShape> y = pooled(graph, op);
  if (!y) return y.error();
  return std::vector<Tensor>{{*y}};
}

OutputTensors adaptive_outputs(const Graph& graph, Op& op) {
  const ImageShape in = image_of(graph.shape(op.in[0]));
  AdaptivePoolShape& s = op.adaptive;
  if (s.oh < 1 || s.ow < 1) return usage_error("h and w must be at least 1");
  s.n = in.n;
  s.h = in.h;
  s.w = in.w;
  s.c = in.c;
  return std::vector<Tensor>{{ImageShape{s.n, s.oh, s.ow, s.c}}};
}

OutputTensors global_outputs(const Graph& graph, Op& op) {
  const ImageShape in = image_of(graph.shape(op.in[0]));
  return std::vector<Tensor>{{ImageShape{in.n, 1, 1, in.c}}};
}

// --- Execution.

// Calls task(begin, end, in, out) for ranges of images; `in` and `out` are the addresses of the
// first image of the range in the first input and the first output.
template <class Task>
void over_images(const OpRun& run, Task&& task) {
  const std::int64_t images = run.in_shape().front();
  const std::int64_t x = run.in_shape().count() / images, y = run.out_shape().count() / images;
  // Windows overlap within an image only, so images are independent in both directions.
  run.share(images, std::max(x, y), [&](std::int64_t begin, std::int64_t end) {
    task(begin, end, run.in(0) + begin * x, run.out(0) + begin * y);
  });
}

template <class Shape>
Shape images(const Shape& shape, std::int64_t begin, std::int64_t end) {
  Shape part = shape;
  part.n = end - begin;
  return part;
}

template <class On>
void max_pool(const On& on, const OpRun& run) {
  std::uint8_t* const argmax = run.bytes(run.op.out[1]);
  // The bytes of argmax have the shape of the output, so `image` also counts them.
  const std::int64_t image = run.out_shape().count() / run.op.pool.n;
  over_images(run, [&](std::int64_t begin, std::int64_t end, const float* x, float* y) {
    on(on.kernels.max_pool_fwd, images(run.op.pool, begin, end), x, y, argmax + begin * image);
  });
}

template <class On>
void max_pool_gradient(const On& on, const OpRun& run) {
  const std::uint8_t* const argmax = run.bytes(run.op.in[1]);
  const std::int64_t image = run.in_shape().count() / run.op.pool.n;
  over_images(run, [&](std::int64_t begin, std::int64_t end, const float* dy, float* dx) {
    on(on.kernels.max_pool_bwd, images(run.op.pool, begin, end), dy, argmax + begin * image, dx);
  });
}

template <class On, class Kernel, class Shape>
void average(const On& on, const OpRun& run, Kernel kernel, const Shape& shape) {
  over_images(run, [&](std::int64_t begin, std::int64_t end, const float* from, float* to) {
    on(kernel, images(shape, begin, end), from, to);
  });
}

// One thread computes all images, because they share the workspace.
template <class On>
void global_average(const On& on, const OpRun& run) {
  const ImageShape x = image_of(run.in_shape());
  on(on.kernels.global_avg_pool_fwd, x.n, x.h * x.w, x.c, run.in(0), run.out(0),
     run.buffers.workspace);
}

template <class On>
void global_average_gradient(const On& on, const OpRun& run) {
  const ImageShape x = image_of(run.out_shape());
  over_images(run, [&](std::int64_t begin, std::int64_t end, const float* dy, float* dx) {
    on(on.kernels.global_avg_pool_bwd, end - begin, x.h * x.w, x.c, dy, dx);
  });
}

// Emits an operator of this kind that reads dy.
template <OpKind kKind>
void gradient_of_dy(Gradients& g, const Op& op) {
  g.emit_data_grad(op, kKind, {g.of(op.out[0])}, op.in[0]);
}

constexpr Operator kPoolOperators[] = {
    {.kind = OpKind::kMaxPool,
     .name = "max_pool",
     .kernels = "max_pool_fwd, max_pool_bwd",
     .inputs = Inputs::kImages,
     .outputs = max_pool_outputs,
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_data_grad(op, OpKind::kMaxPoolGrad, {g.of(op.out[0]), op.out[1]}, op.in[0]);
         },
     .run = [](const auto& on, const OpRun& run) { max_pool(on, run); }},
    {.kind = OpKind::kMaxPoolGrad,
     .name = "max_pool gradient",
     .run = [](const auto& on, const OpRun& run) { max_pool_gradient(on, run); }},

    {.kind = OpKind::kAvgPool,
     .name = "avg_pool",
     .kernels = "avg_pool_fwd, avg_pool_bwd",
     .inputs = Inputs::kImages,
     .outputs = avg_pool_outputs,
     .gradient = gradient_of_dy<OpKind::kAvgPoolGrad>,
     .run = [](const auto& on,
               const OpRun& run) { average(on, run, on.kernels.avg_pool_fwd, run.op.pool); }},
    {.kind = OpKind::kAvgPoolGrad,
     .name = "avg_pool gradient",
     .run = [](const auto& on,
               const OpRun& run) { average(on, run, on.kernels.avg_pool_bwd, run.op.pool); }},

    {.kind = OpKind::kAdaptiveAvgPool,
     .name = "adaptive_avg_pool",
     .kernels = "adaptive_avg_pool_fwd, adaptive_avg_pool_bwd",
     .inputs = Inputs::kImages,
     .outputs = adaptive_outputs,
     .gradient = gradient_of_dy<OpKind::kAdaptiveAvgPoolGrad>,
     .run =
         [](const auto& on, const OpRun& run) {
           average(on, run, on.kernels.adaptive_avg_pool_fwd, run.op.adaptive);
         }},
    {.kind = OpKind::kAdaptiveAvgPoolGrad,
     .name = "adaptive_avg_pool gradient",
     .run =
         [](const auto& on, const OpRun& run) {
           average(on, run, on.kernels.adaptive_avg_pool_bwd, run.op.adaptive);
         }},

    {.kind = OpKind::kGlobalAvgPool,
     .name = "global_avg_pool",
     .kernels = "global_avg_pool_fwd, global_avg_pool_bwd",
     .inputs = Inputs::kImages,
     .outputs = global_outputs,
     .gradient = gradient_of_dy<OpKind::kGlobalAvgPoolGrad>,
     .workspace = {[](const KernelTable& k, const OpShapes& op, int) {
                     const ImageShape x = image_of(op.in_shape());
                     return k.global_avg_pool_workspace_floats(x.h * x.w, x.c);
                   },
                   [](const cuda::DeviceKernels& k, const OpShapes& op) {
                     const ImageShape x = image_of(op.in_shape());
                     return k.global_avg_pool_workspace_floats(x.n, x.h * x.w, x.c);
                   }},
     .run = [](const auto& on, const OpRun& run) { global_average(on, run); }},
    {.kind = OpKind::kGlobalAvgPoolGrad,
     .name = "global_avg_pool gradient",
     .run = [](const auto& on, const OpRun& run) { global_average_gradient(on, run); }},
};

}  // namespace

std::span<const Operator> pool_operators() {
  return kPoolOperators;
}

}  // namespace es::gpu
