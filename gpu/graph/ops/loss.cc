// Losses and their gradients. They are small and run on one thread.
#include "gpu/graph/gradients.h"
#include "gpu/graph/move_shapes.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

// --- Shape rules.

// Appends to the outputs `kept` the losses of the rows and their mean.
OutputTensors with_losses(const Graph& graph, std::vector<Tensor> kept, std::int64_t rows) {
  // The loss of a sample is the mean of its rows, so each sample needs the same number of rows.
  if (rows % graph.batch != 0)
    return usage_error(std::to_string(rows) + " losses are not a multiple of the batch size " +
                       std::to_string(graph.batch));
  kept.push_back({ImageShape{graph.batch, 1, 1, rows / graph.batch}});
  kept.push_back({ImageShape{1, 1, 1, 1}});
  return kept;
}

OutputTensors cross_entropy_outputs(const Graph& graph, Op& op) {
  const TensorShape& x = graph.shape(op.in[0]);
  const Tensor& labels = graph.tensors[static_cast<std::size_t>(op.in[1])];
  if (x.row() < 2) return usage_error("logits " + shape_text(x) + " need at least 2 classes");
  if (labels.type != ElementType::kI32 || labels.shape.count() != x.rows())
    return usage_error("labels " + shape_text(labels.shape) + " must be " +
                       std::to_string(x.rows()) + " integers, one for each row of the logits " +
                       shape_text(x));
  return with_losses(graph, {{x}}, x.rows());
}

OutputTensors element_loss_outputs(const Graph& graph, Op& op) {
  const TensorShape& x = graph.shape(op.in[0]);
  const Tensor& targets = graph.tensors[static_cast<std::size_t>(op.in[1])];
  // The gradient operator gives the gradient of x only. Targets that depend on parameters are
  // refused here, and the import builds such a loss from general operators.
  if (targets.shape.count() != x.count() || targets.needs_grad)
    return usage_error("targets " + shape_text(targets.shape) + " must be " +
                       std::to_string(x.count()) + " given numbers, as many as its input " +
                       shape_text(x) + " has");
  return with_losses(graph, {}, x.count());
}

OutputTensors yolo_outputs(const Graph& graph, Op& op) {
  YoloShape& s = op.yolo;
  const TensorShape& boxes = graph.shape(op.in[3]);
  if (boxes.count() % (5 * graph.batch) != 0)
    return usage_error("boxes " + shape_text(boxes) + " must be [n,M,1,5]");
  s.batch = graph.batch;
  s.boxes = boxes.count() / (5 * graph.batch);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < 3; ++i) {
    const ImageShape grid = image_of(graph.shape(op.in[i]));
    if (grid.n != graph.batch || grid.c != 3 * (5 + s.classes))
      return usage_error("output " + shape_text(grid) + " must be [" + std::to_string(graph.batch) +
                         ",h,w,3*(5+" + std::to_string(s.classes) + ")]");
    s.h[i] = grid.h;
    s.w[i] = grid.w;
    gradients.push_back({grid});
  }
  return with_losses(graph, std::move(gradients), graph.batch);
}

// A number that is the loss: the loss of every row is this number.
OutputTensors scalar_outputs(const Graph& graph, Op& op) {
  if (graph.shape(op.in[0]).count() != 1)
    return usage_error("its input " + shape_text(graph.shape(op.in[0])) + " must be one number");
  // The losses of the samples are not known, so each sample gets the loss of the mini-batch.
  op.move = scalar_loss_move(graph.batch);
  return with_losses(graph, {}, graph.batch);
}

// --- Gradients.

// The derivative of the loss with respect to itself is 1. The other loss operators include the
// factor of their mean in their gradients.
void scalar_gradient(Gradients& g, const Op& op) {
  if (g.needed(op.in[0]))
    g.contribute(op.name, op.in[0],
                 g.add_constant("the gradient of the loss", g.graph().shape(op.in[0]), 1.0F));
}

template <OpKind kKind>
void gradient_of_inputs(Gradients& g, const Op& op) {
  g.emit_data_grad(op, kKind, op.in, op.in[0]);
}

// The YOLO loss computes its gradients together with the loss, because both need the assignment of
// boxes to positions. They are outputs of the forward operator and need no backward one.
void yolo_gradient(Gradients& g, const Op& op) {
  for (std::size_t s = 0; s < 3; ++s) g.contribute(op.name, op.in[s], op.out[s]);
}

// --- Execution.

// Threads share the rows. The mean is one sum.
template <class On>
void cross_entropy(const On& on, const OpRun& run) {
  const std::int64_t classes = run.in_shape().row();
  run.share(run.in_shape().rows(), classes, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.softmax_xent_fwd, end - begin, classes, run.in(0) + begin * classes,
       run.ids(1) + begin, run.op.terms, run.out(0) + begin * classes, run.out(1) + begin);
  });
  on(on.kernels.softmax_xent_mean, run.in_shape().rows(), run.ids(1), run.out(1), run.out(2));
}

template <class On>
void cross_entropy_gradient(const On& on, const OpRun& run) {
  const std::int64_t rows = run.in_shape().rows(), classes = run.in_shape().row();
  run.share(rows, classes, [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.softmax_xent_bwd, end - begin, classes, run.in(0) + begin * classes,
       run.ids(1) + begin, LabelledRows{rows, run.ids(1)}, run.op.terms,
       run.out(0) + begin * classes);
  });
}

// A device needs a workspace for the mean.
template <class Kernel>
void element_loss(const OnCpu& on, const OpRun& run, Kernel kernel) {
  on(kernel, run.in_shape().count(), run.in(0), run.in(1), run.out(0), run.out(1));
}
template <class Kernel>
void element_loss(const OnDevice& on, const OpRun& run, Kernel kernel) {
  on(kernel, run.in_shape().count(), run.in(0), run.in(1), run.out(0), run.out(1),
     run.buffers.workspace);
}

template <class On, class Kernel>
void element_gradient(const On& on, const OpRun& run, Kernel kernel) {
  on(kernel, run.in_shape().count(), run.in(0), run.in(1), run.out(0));
}

template <class On>
void yolo(const On& on, const OpRun& run) {
  const float* const outputs[3] = {run.in(0), run.in(1), run.in(2)};
  float* const gradients[3] = {run.out(0), run.out(1), run.out(2)};
  on(on.kernels.yolo_loss, run.op.yolo, outputs, run.in(3), gradients, run.out(3), run.out(4),
     run.buffers.workspace);
}

constexpr Workspace kMeanWorkspace = {nullptr,
                                      [](const cuda::DeviceKernels& k, const OpShapes& op) {
                                        return k.mean_loss_workspace_floats(op.in_shape().count());
                                      }};

void run_scalar_loss(const OnCpu&, const OpRun& run) {
  float* const source = run.in(0);
  float* const targets[] = {run.out(0), run.out(1)};
  run_move(run.op.move, {&source, 1}, targets, 0, 1);
}

void queue_scalar_loss(const OnDevice& on, const OpRun& run) {
  for (const BlockCopy& copy : run.op.move)
    on(on.kernels.block_copy, copy, run.in(0), run.out(static_cast<std::size_t>(copy.target)));
}

constexpr Operator kLossOperators[] = {
    {.kind = OpKind::kCrossEntropy,
     .name = "cross_entropy",
     .kernels = "softmax_xent_fwd, softmax_xent_mean, softmax_xent_bwd",
     .inputs = Inputs::kDense,
     .inputs_checked = 1,
     .outputs = cross_entropy_outputs,
     .stored = Stored::kF32,
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_data_grad(op, OpKind::kCrossEntropyGrad, {op.out[0], op.in[1]}, op.in[0]);
         },
     .is_loss = true,
     .run = [](const auto& on, const OpRun& run) { cross_entropy(on, run); }},
    {.kind = OpKind::kCrossEntropyGrad,
     .name = "cross_entropy gradient",
     .run = [](const auto& on, const OpRun& run) { cross_entropy_gradient(on, run); }},

    {.kind = OpKind::kBce,
     .name = "bce_with_logits",
     .kernels = "bce_fwd, bce_bwd",
     .inputs = Inputs::kDense,
     .outputs = element_loss_outputs,
     .stored = Stored::kF32,
     .gradient = gradient_of_inputs<OpKind::kBceGrad>,
     .is_loss = true,
     .workspace = kMeanWorkspace,
     .run = [](const auto& on, const OpRun& run) { element_loss(on, run, on.kernels.bce_fwd); }},
    {.kind = OpKind::kBceGrad,
     .name = "bce_with_logits gradient",
     .run = [](const auto& on,
               const OpRun& run) { element_gradient(on, run, on.kernels.bce_bwd); }},

    {.kind = OpKind::kMse,
     .name = "mse",
     .kernels = "mse_fwd, mse_bwd",
     .inputs = Inputs::kDense,
     .outputs = element_loss_outputs,
     .stored = Stored::kF32,
     .gradient = gradient_of_inputs<OpKind::kMseGrad>,
     .is_loss = true,
     .workspace = kMeanWorkspace,
     .run = [](const auto& on, const OpRun& run) { element_loss(on, run, on.kernels.mse_fwd); }},
    {.kind = OpKind::kMseGrad,
     .name = "mse gradient",
     .run = [](const auto& on,
               const OpRun& run) { element_gradient(on, run, on.kernels.mse_bwd); }},

    {.kind = OpKind::kYolo,
     .name = "yolo",
     .kernels = "yolo_loss",
     .inputs = Inputs::kImages,
     .inputs_checked = 3,
     .outputs = yolo_outputs,
     .stored = Stored::kF32,
     .gradient = yolo_gradient,
     .is_loss = true,
     .workspace = [](const auto& k,
                     const OpShapes& op) { return k.yolo_loss_workspace_floats(op.op.yolo); },
     .run = [](const auto& on, const OpRun& run) { yolo(on, run); }},

    {.kind = OpKind::kScalarLoss,
     .name = "scalar loss",
     .kernels = "move",
     .inputs = Inputs::kNumbers,
     .outputs = scalar_outputs,
     .stored = Stored::kF32,
     .gradient = scalar_gradient,
     .is_loss = true,
     .run = {run_scalar_loss, queue_scalar_loss}},
};

}  // namespace

std::span<const Operator> loss_operators() {
  return kLossOperators;
}

}  // namespace es::gpu
