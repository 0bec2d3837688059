#include "gpu/graph/op_calls.h"

namespace es::gpu {
namespace {

struct Products {
  float *q, *k, *v;
};

// Q, k and v are the tensors at the first positions of the inputs (or outputs), or parts of one
// packed tensor.
template <class Address>
Products products(const Op& op, Address&& address) {
  if (!op.attention_in.packed) return {address(0), address(1), address(2)};
  const std::int64_t width = op.attention.heads * op.attention.head_dim;
  return {address(0), address(0) + width, address(0) + 2 * width};
}

const float* extra(const OpRun& run, std::int32_t index) {
  return index < 0 ? nullptr : run.in(static_cast<std::size_t>(index));
}

AttentionCall inputs_of(const OpRun& run) {
  const auto [q, k, v] = products(run.op, [&](std::size_t i) { return run.in(i); });
  return {.shape = run.op.attention, .q = q, .k = k, .v = v};
}

}  // namespace

std::int64_t chain_stages(const OpRun& run, ChainStages& stages) {
  std::int64_t count = 0;
  for (const ChainStep& step : run.op.chain) {
    if (step.kind == ChainKind::kDropout && run.mode == RunMode::kEvaluate) continue;
    stages[static_cast<std::size_t>(count++)] = {
        .kind = step.kind,
        .operand = step.operand == 0 ? nullptr : run.in(static_cast<std::size_t>(step.operand)),
        .factor = step.factor,
        .columns = step.columns,
        .dropout = step.dropout};
  }
  return count;
}

BnForward batch_norm_call(const OpRun& run) {
  const Op& op = run.op;
  const RunBuffers& b = run.buffers;
  return {.rows = run.in_shape(0).rows(),
          .c = run.in_shape(0).c,
          .x = run.in(0),
          .gamma = run.param(op.weight),
          .beta = run.param(op.bias),
          .eps = kBatchNormEps,
          .momentum = kBatchNormMomentum,
          .running_mean = b.stats + op.stats.mean,
          .running_var = b.stats + op.stats.variance,
          .act = op.activation,
          .y = run.out(0),
          .mean = run.out(1),
          .istd = run.out(2),
          .next_mean = b.next_stats + op.stats.mean,
          .next_var = b.next_stats + op.stats.variance,
          .ws = b.workspace};
}

BnBackward batch_norm_grad_call(const OpRun& run) {
  return {.rows = run.in_shape(0).rows(),
          .c = run.in_shape(0).c,
          .x = run.in(0),
          .dy = run.in(1),
          .mean = run.in(2),
          .istd = run.in(3),
          .gamma = run.param(run.op.weight),
          .beta = run.param(run.op.bias),
          .act = run.op.activation,
          .dx = run.out(0),
          .dgamma = run.grad(run.op.weight),
          .dbeta = run.grad(run.op.bias),
          .ws = run.buffers.workspace};
}

AttentionCall attention_call(const OpRun& run) {
  AttentionCall call = inputs_of(run);
  const AttentionInputs& in = run.op.attention_in;
  if (run.mode == RunMode::kEvaluate) call.shape.dropout = {};
  call.extras = {extra(run, in.bias), extra(run, in.mask),
                 reinterpret_cast<const std::int32_t*>(extra(run, in.length))};
  return call;
}

AttentionCall attention_grad_call(const OpRun& run) {
  AttentionCall call = inputs_of(run);
  const auto [dq, dk, dv] = products(run.op, [&](std::size_t i) { return run.out(i); });
  const auto outputs = static_cast<std::size_t>(run.op.attention_in.first_extra());
  call.probs = run.in(run.op.in.size() - 2);
  call.dy = run.in(run.op.in.size() - 1);
  call.dq = dq;
  call.dk = dk;
  call.dv = dv;
  call.dbias = run.op.out.size() > outputs ? run.out(outputs) : nullptr;
  return call;
}

}  // namespace es::gpu
