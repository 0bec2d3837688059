// Convolutions. The work is divided by images, or by channels: for the gradient of the weights,
// because its sums run over all images, and where the weights are larger than the images. Every
// thread has its own scratch memory.
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/ops/product_run.h"
#include "gpu/graph/ops/scratch.h"

namespace es::gpu {
namespace {

OutputTensors conv_outputs(const Graph& graph, Op& op) {
  const ImageShape in = image_of(graph.shape(op.in[0]));
  ConvShape& s = op.conv;
  if (s.oc < 1 || s.kh < 1 || s.stride < 1 || s.pad < 0 || s.groups < 1)
    return usage_error("out, kernel, stride and groups must be at least 1, pad at least 0");
  if (in.c % s.groups != 0 || s.oc % s.groups != 0)
    return usage_error(
        std::to_string(in.c) + " input and " + std::to_string(s.oc) +
        " output channels must be multiples of groups = " + std::to_string(s.groups));
  // The output would have no pixel.
  if (in.h + 2 * s.pad < s.kh || in.w + 2 * s.pad < s.kw)
    return usage_error("kernel " + std::to_string(s.kh) + " with pad " + std::to_string(s.pad) +
                       " is larger than its input " + shape_text(in));
  s.n = in.n;
  s.h = in.h;
  s.w = in.w;
  s.c = in.c;
  return std::vector<Tensor>{{ImageShape{s.n, s.oh(), s.ow(), s.oc}}};
}

void conv_gradient(Gradients& g, const Op& op) {
  const TensorId x = op.in[0], dy = g.of(op.out[0]);
  // The order (bias, weight, input) is that of differentiate.h. The gradients of the parameters,
  // and so their buckets, are complete before the gradients of earlier layers.
  g.emit_bias_grad(op, OpKind::kBiasGrad, {dy});
  g.emit_weight_grad(op, OpKind::kConvWgrad, {x, dy});
  g.emit_data_grad(op, OpKind::kConvDgrad, {dy}, x, Reads::kWeight);
}

// --- The division of the work.

Cut by_images(const ConvShape& shape, int threads) {
  return {shape.n, 1, threads};
}
// The channels of a depthwise convolution lie in vector registers: 16 fill one of AVX-512. Others
// are rows of tiles, and any number of rows is divided evenly among tiles.
Cut by_channels(const ConvShape& shape, int threads) {
  const bool depthwise = shape.groups > 1 && shape.groups == shape.c && shape.oc == shape.c;
  return {shape.oc, depthwise ? 16 : 4, threads};
}

// Returns whether the forward pass and the data gradient are products of matrices whose rows are
// pixels. They have the sums of a linear layer: no window leaves the image. As a product they are
// divided by columns where the weights are larger than the images.
bool is_pointwise(const ConvShape& s) {
  return s.kh == 1 && s.kw == 1 && s.stride == 1 && s.pad == 0 && s.groups == 1;
}
LinearShape pointwise_shape(const ConvShape& s) {
  return {s.n * s.h * s.w, s.c, s.oc};
}

// Images follow each other in memory, so a part is a smaller batch at another address.
ConvShape images(const ConvShape& shape, std::int64_t begin, std::int64_t end) {
  ConvShape part = shape;
  part.n = end - begin;
  return part;
}

using WorkspaceOfShape = std::size_t (*)(const ConvShape&);

// The division of the forward pass, or of the data gradient. A part of the images rearranges all
// weights, a part of the channels reads all images.
struct PixelCut {
  PixelCut(ConvPass pass, const ConvShape& shape, int threads)
      : shape(shape),
        channels(pass == ConvPass::kForward ? &ConvShape::oc : &ConvShape::c),
        cut(by_images(shape, threads)) {
    const std::int64_t map = pass == ConvPass::kForward ? shape.h * shape.w * shape.c
                                                        : shape.oh() * shape.ow() * shape.oc;
    const Cut columns(shape.*channels, 16, threads);  // they fill vector registers
    by_channels = shape.groups == 1 && columns.parts >= cut.parts &&
                  shape.oc * shape.kh * shape.kw * shape.c > shape.n * map;
    if (by_channels) cut = columns;
  }
  // The images of a part, and its channels.
  ConvShape images_of(std::int64_t i) const {
    return by_channels ? shape : images(shape, cut.begin(i), cut.end(i));
  }
  std::int64_t image(std::int64_t i) const { return by_channels ? 0 : cut.begin(i); }
  std::int64_t begin(std::int64_t i) const { return by_channels ? cut.begin(i) : 0; }
  std::int64_t end(std::int64_t i) const { return by_channels ? cut.end(i) : shape.*channels; }
  // Scratch memory of all parts.
  Scratch scratch(WorkspaceOfShape floats, int threads) const {
    Scratch all(threads);
    for (std::int64_t i = 0; i < cut.parts; ++i) {
      ConvShape part = images_of(i);
      part.*channels = end(i) - begin(i);
      all.cover(floats(part));
    }
    return all;
  }

  ConvShape shape;
  std::int64_t ConvShape::*channels;
  Cut cut;
  bool by_channels;
};

// The pass gets the whole shape and a range of channels, so each thread needs the scratch memory of
// the whole.
Scratch scratch_of_weights(const KernelTable& k, const ConvShape& shape, int threads) {
  Scratch scratch(threads);
  scratch.cover(k.conv_wgrad_workspace_floats(shape));
  return scratch;
}

// --- Execution.

DenseCall conv_call(const OpRun& run) {
  return {run.in(0), run.weight(), run.bias(), run.out(0)};
}
DenseCall conv_dgrad_call(const OpRun& run) {
  return {run.in(0), run.weight(), nullptr, run.out(0)};
}
DenseCall conv_wgrad_call(const OpRun& run) {
  return {run.in(0), run.in(1), nullptr, run.weight_grad()};
}

void run_forward(const OnCpu& on, const OpRun& run) {
  const DenseCall call = conv_call(run);
  const ConvShape& s = run.op.conv;
  if (is_pointwise(s))
    return run_gemm(on, run, pointwise_shape(s).forward(), call, run.buffers.workspace);
  const std::int64_t image = s.h * s.w * s.c, map = s.oh() * s.ow() * s.oc;
  const PixelCut cut(ConvPass::kForward, s, run.threads());
  const Scratch scratch = scratch_for(run.threads(), [&] {
    return cut.scratch(on.kernels.conv_fwd_workspace_floats, run.threads());
  });
  run.parts(cut.cut.parts, [&](int i) {
    on.kernels.conv_fwd(cut.images_of(i), cut.begin(i), cut.end(i), call.a + cut.image(i) * image,
                        call.b, call.bias, call.out + cut.image(i) * map,
                        scratch.of_part(run.buffers.workspace, i));
  });
}

void run_data_gradient(const OnCpu& on, const OpRun& run) {
  const DenseCall call = conv_dgrad_call(run);
  const ConvShape& s = run.op.conv;
  if (is_pointwise(s))
    return run_gemm(on, run, pointwise_shape(s).data_gradient(), call, run.buffers.workspace);
  const std::int64_t image = s.h * s.w * s.c, map = s.oh() * s.ow() * s.oc;
  const PixelCut cut(ConvPass::kDataGradient, s, run.threads());
  const Scratch scratch = scratch_for(run.threads(), [&] {
    return cut.scratch(on.kernels.conv_dgrad_workspace_floats, run.threads());
  });
  run.parts(cut.cut.parts, [&](int i) {
    on.kernels.conv_dgrad(cut.images_of(i), cut.begin(i), cut.end(i), call.a + cut.image(i) * map,
                          call.b, call.out + cut.image(i) * image,
                          scratch.of_part(run.buffers.workspace, i));
  });
}

void run_weight_gradient(const OnCpu& on, const OpRun& run) {
  const DenseCall call = conv_wgrad_call(run);
  const Cut cut = by_channels(run.op.conv, run.threads());
  const Scratch scratch = scratch_for(
      run.threads(), [&] { return scratch_of_weights(on.kernels, run.op.conv, run.threads()); });
  run.parts(cut.parts, [&](int i) {
    on.kernels.conv_wgrad(run.op.conv, cut.begin(i), cut.end(i), call.a, call.b, call.out,
                          scratch.of_part(run.buffers.workspace, i));
  });
}

constexpr Operator kConvOperators[] = {
    {.kind = OpKind::kConv2d,
     .name = "conv2d",
     .kernels = "conv_fwd, conv_dgrad, conv_wgrad, gemm",
     .inputs = Inputs::kImages,
     .inputs_checked = 1,  // a weight and a bias may follow
     .outputs = conv_outputs,
     .stored = Stored::kFirstBf16,
     .factors = [](const Op&) { return std::vector<std::size_t>{0}; },
     .multiplies_weight = true,
     .gradient = conv_gradient,
     .workspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                     if (is_pointwise(op.op.conv))
                       return gemm_floats(k, pointwise_shape(op.op.conv).forward(), threads);
                     return PixelCut(ConvPass::kForward, op.op.conv, threads)
                         .scratch(k.conv_fwd_workspace_floats, threads)
                         .all();
                   },
                   [](const cuda::DeviceKernels& k, const OpShapes& op) {
                     return k.conv_fwd_workspace_floats(op.op.conv);
                   }},
     .run = {run_forward,
             [](const OnDevice& on, const OpRun& run) {
               const DenseCall call = conv_call(run);
               on(on.kernels.conv_fwd, run.op.conv, call.a, call.b, call.bias, call.out,
                  run.buffers.workspace);
             }},
     .dense = {.conv = ConvPass::kForward, .call = conv_call, .takes_bias = true}},

    {.kind = OpKind::kConvDgrad,
     .name = "conv2d data gradient",
     .factors = [](const Op&) { return std::vector<std::size_t>{0}; },
     .multiplies_weight = true,
     .workspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                     if (is_pointwise(op.op.conv))
                       return gemm_floats(k, pointwise_shape(op.op.conv).data_gradient(), threads);
                     return PixelCut(ConvPass::kDataGradient, op.op.conv, threads)
                         .scratch(k.conv_dgrad_workspace_floats, threads)
                         .all();
                   },
                   [](const cuda::DeviceKernels& k, const OpShapes& op) {
                     return k.conv_dgrad_workspace_floats(op.op.conv);
                   }},
     .run = {run_data_gradient,
             [](const OnDevice& on, const OpRun& run) {
               const DenseCall call = conv_dgrad_call(run);
               on(on.kernels.conv_dgrad, run.op.conv, call.a, call.b, call.out,
                  run.buffers.workspace);
             }},
     .dense = {.conv = ConvPass::kDataGradient, .call = conv_dgrad_call}},

    {.kind = OpKind::kConvWgrad,
     .name = "conv2d weight gradient",
     .factors =
         [](const Op&) {
           return std::vector<std::size_t>{0, 1};
         },
     .writes_weight_grad = true,
     .workspace = {[](const KernelTable& k, const OpShapes& op, int threads) {
                     return scratch_of_weights(k, op.op.conv, threads).all();
                   },
                   [](const cuda::DeviceKernels& k, const OpShapes& op) {
                     return k.conv_wgrad_workspace_floats(op.op.conv);
                   }},
     .run = {run_weight_gradient,
             [](const OnDevice& on, const OpRun& run) {
               const DenseCall call = conv_wgrad_call(run);
               on(on.kernels.conv_wgrad, run.op.conv, call.a, call.b, call.out,
                  run.buffers.workspace);
             }},
     .dense = {.conv = ConvPass::kWeightGradient, .call = conv_wgrad_call}},
};

}  // namespace

std::span<const Operator> conv_operators() {
  return kConvOperators;
}

}  // namespace es::gpu
