// Operators that only move data: moves (gpu/canonical/move.h), upsampling and views.
#include <array>
#include <cstring>

#include "gpu/graph/gradients.h"
#include "gpu/graph/move_shapes.h"
#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// The gradient of a move copies in the opposite direction, from the outputs that have a gradient to
// the inputs that need one. A word that was not read has gradient +0, which is what a move leaves
// where it does not write.
void move_gradient(Gradients& g, const Op& op) {
  std::vector<TensorId> dys, dxs, xs;
  std::vector<std::int32_t> source_of(op.out.size(), -1), target_of(op.in.size(), -1);
  for (std::size_t i = 0; i < op.out.size(); ++i) {
    // An output that does not influence the loss has no gradient. Its words then contribute
    // nothing, which equals +0.
    if (g.of(op.out[i]) == kNoTensor) continue;
    source_of[i] = static_cast<std::int32_t>(dys.size());
    dys.push_back(g.of(op.out[i]));
  }
  for (std::size_t i = 0; i < op.in.size(); ++i) {
    if (!g.needed(op.in[i])) continue;
    target_of[i] = static_cast<std::int32_t>(dxs.size());
    xs.push_back(op.in[i]);
    dxs.push_back(g.add_tensor(g.graph().shape(op.in[i])));
  }
  Op back{.kind = OpKind::kMove, .name = op.name, .in = dys, .out = dxs};
  for (BlockCopy copy : transposed(op.move)) {
    // transposed() has exchanged source and target, so the source is now an output of the forward
    // move. Its index becomes that among the gradients that exist.
    copy.source = source_of[static_cast<std::size_t>(copy.source)];
    copy.target = target_of[static_cast<std::size_t>(copy.target)];
    if (copy.source >= 0 && copy.target >= 0) back.move.push_back(copy);
  }
  g.append(std::move(back));
  for (std::size_t i = 0; i < xs.size(); ++i) g.contribute(op.name, xs[i], dxs[i]);
}

// Returns whether the move leaves words of the output unwritten, which are then +0.
bool leaves_zeros(const OpRun& run, std::size_t output) {
  return written_words(run.op.move, static_cast<std::int32_t>(output)) <
         run.out_shape(output).count();
}

void run_moves(const OnCpu&, const OpRun& run) {
  const Op& op = run.op;
  std::array<float*, kMoveTensorsMax> sources, targets;
  ES_CHECK(op.in.size() <= kMoveTensorsMax && op.out.size() <= kMoveTensorsMax);
  std::int64_t words = 0;
  for (std::size_t i = 0; i < op.in.size(); ++i) sources[i] = run.in(i);
  for (std::size_t i = 0; i < op.out.size(); ++i) {
    targets[i] = run.out(i);
    const std::int64_t count = run.out_shape(i).count();
    words += count;
    if (leaves_zeros(run, i))
      // Before the copies, which then overwrite the words that the move writes.
      std::memset(targets[i], 0, static_cast<std::size_t>(count) * sizeof(float));
  }
  const Cut cut(words, kGrainFloats, run.threads());
  run.parts(cut.parts, [&](int part) {
    run_move(op.move, {sources.data(), op.in.size()}, {targets.data(), op.out.size()}, part,
             cut.parts);
  });
}

void queue_moves(const OnDevice& on, const OpRun& run) {
  for (std::size_t i = 0; i < run.op.out.size(); ++i)
    if (leaves_zeros(run, i)) on(on.kernels.fill_zero, run.out_shape(i).count(), run.out(i));
  for (const BlockCopy& copy : run.op.move)
    on(on.kernels.block_copy, copy, run.in(static_cast<std::size_t>(copy.source)),
       run.out(static_cast<std::size_t>(copy.target)));
}

OutputTensors upsampled(const Graph& graph, Op& op) {
  const ImageShape in = image_of(graph.shape(op.in[0]));
  op.move = upsample2_move(in);
  return std::vector<Tensor>{{ImageShape{in.n, 2 * in.h, 2 * in.w, in.c}}};
}

// The kernel sums the four gradients of a pixel.
template <class On>
void upsample2_gradient(const On& on, const OpRun& run) {
  const ImageShape x = image_of(run.out_shape()), y = image_of(run.in_shape());
  // An image is not divided, so the four terms of a pixel are added by one thread.
  run.share(x.n, y.image(), [&](std::int64_t begin, std::int64_t end) {
    on(on.kernels.upsample2_bwd, end - begin, x.h, x.w, x.c, run.in(0) + begin * y.image(),
       run.out(0) + begin * x.image());
  });
}

constexpr Operator kMoveOperators[] = {
    {.kind = OpKind::kMove,
     .name = "move",
     .kernels = "move",
     .gradient = move_gradient,
     .run = {run_moves, queue_moves}},
    {.kind = OpKind::kUpsample2,
     .name = "upsample2",
     .kernels = "move, upsample2_bwd",
     .inputs = Inputs::kImages,
     .outputs = upsampled,
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_data_grad(op, OpKind::kUpsample2Grad, {g.of(op.out[0])}, op.in[0]);
         },
     .run = {run_moves, queue_moves}},
    {.kind = OpKind::kUpsample2Grad,
     .name = "upsample2 gradient",
     .run = [](const auto& on, const OpRun& run) { upsample2_gradient(on, run); }},
    {.kind = OpKind::kView,
     .name = "view",
     .gradient =
         [](Gradients& g, const Op& op) {
           g.emit_data_grad(op, OpKind::kView, {g.of(op.out[0])}, op.in[0]);
         },
     .is_view = true,
     .run = [](const auto&, const OpRun&) {}},
};

}  // namespace

std::span<const Operator> move_operators() {
  return kMoveOperators;
}

}  // namespace es::gpu
