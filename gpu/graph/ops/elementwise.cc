// Element-wise operators: stages of a chain, and random numbers. A new stage is a ChainKind
// (gpu/canonical/kernels.h) and an entry of kStages.
#include <algorithm>
#include <array>
#include <cstring>

#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/bf16_tile.h"
#include "gpu/graph/ops/operator.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// --- The stages, and their gradients.

enum class Keeps { kNothing, kInput, kOutput };  // the tensor that the gradient of a stage reads

struct Stage {
  ChainKind kind;
  const char* name;
  // The gradient of a stage without an operand is dy after this stage; the factor is the same.
  ChainKind gradient = ChainKind::kScale;
  Keeps keeps = Keeps::kNothing;
};

constexpr Stage kStages[] = {
    {ChainKind::kScale, "scale"},
    {ChainKind::kAdd, "add"},
    {ChainKind::kMul, "mul"},
    {ChainKind::kAddRow, "add_rows"},
    // The gradients of ReLU and leaky ReLU take the sign of x from y, so x need not be kept. GELU
    // is not monotonic, so its gradient needs x.
    {ChainKind::kRelu, "relu", ChainKind::kReluGrad, Keeps::kOutput},
    {ChainKind::kLeakyRelu, "leaky_relu", ChainKind::kLeakyReluGrad, Keeps::kOutput},
    {ChainKind::kGelu, "gelu", ChainKind::kGeluGrad, Keeps::kInput},
    {ChainKind::kTanh, "tanh", ChainKind::kTanhGrad, Keeps::kOutput},
    {ChainKind::kSigmoid, "sigmoid", ChainKind::kSigmoidGrad, Keeps::kOutput},
    {ChainKind::kDropout, "dropout", ChainKind::kDropout},
    {ChainKind::kReluGrad, "relu gradient"},
    {ChainKind::kLeakyReluGrad, "leaky_relu gradient"},
    {ChainKind::kGeluGrad, "gelu gradient"},
    {ChainKind::kTanhGrad, "tanh gradient"},
    {ChainKind::kSigmoidGrad, "sigmoid gradient"},
    {ChainKind::kRoundBf16, "round to bf16"},
};

const Stage& stage_of(ChainKind kind) {
  const Stage& stage = kStages[static_cast<std::size_t>(kind)];
  ES_CHECK(stage.kind == kind);
  return stage;
}

std::string chain_detail(const Op& op) {
  std::string text;
  for (const ChainStep& step : op.chain)
    text += (text.empty() ? "" : ", ") + std::string(stage_of(step.kind).name);
  return text;
}

// The gradients of x and of the operand.
void operand_gradients(Gradients& g, const Op& op, TensorId dy) {
  const TensorId x = op.in[0], operand = op.in[1];
  // The gradient of one factor is dy times the other one.
  const auto product = [&](TensorId of, TensorId with) {
    if (g.needed(of))
      g.contribute(op.name, of, g.emit_chain(op.name, dy, {.kind = ChainKind::kMul}, with));
  };
  switch (op.chain[0].kind) {
    case ChainKind::kAdd:  // both operands receive dy itself, without a copy
      g.contribute(op.name, x, dy);
      return g.contribute(op.name, operand, dy);
    case ChainKind::kMul:
      product(x, operand);
      return product(operand, x);
    case ChainKind::kAddRow:
      g.contribute(op.name, x, dy);
      // The row is repeated over n, so its gradient is the sum over n.
      return g.emit_data_grad(op, OpKind::kColumnSum, {dy}, operand);
    default:
      ES_CHECK_MSG(false, op.name);
  }
}

void chain_gradient(Gradients& g, const Op& op) {
  ES_CHECK(op.chain.size() == 1);
  const ChainStep& step = op.chain[0];
  const TensorId x = op.in[0], y = op.out[0], dy = g.of(y);
  if (step.operand != 0) return operand_gradients(g, op, dy);
  const Stage& stage = stage_of(step.kind);
  // The gradient of x * factor is dy * factor, the same stage. A dropout makes the same decisions
  // again, because they depend only on the key, the operator's number and the number of the
  // element.
  if (stage.keeps == Keeps::kNothing)  // a dropout makes the same decisions again
    return g.contribute(op.name, x, g.emit_chain(op.name, dy, step));
  g.contribute(op.name, x,
               g.emit_chain(op.name, dy, {.kind = stage.gradient, .factor = step.factor},
                            stage.keeps == Keeps::kInput ? x : y));
}

// A row that is added to all rows is short, so nothing is lost if it is converted before.
bool chain_reads_bf16(const Op& op, std::size_t input) {
  return std::none_of(op.chain.begin(), op.chain.end(), [&](const ChainStep& step) {
    return step.kind == ChainKind::kAddRow && static_cast<std::size_t>(step.operand) == input;
  });
}

// --- Execution.

using ChainStages = std::array<ChainStage, kChainStepsMax>;

// An evaluation drops nothing, and training has scaled the kept values, so no factor is needed
// there.
bool is_left_out(const ChainStep& step, RunMode mode) {
  return step.kind == ChainKind::kDropout && mode == RunMode::kEvaluate;
}

// Sets the stages that run in this mode and returns their number. 0: the chain is a copy.
std::int64_t chain_stages(const OpRun& run, ChainStages& stages) {
  std::int64_t count = 0;
  for (const ChainStep& step : run.op.chain) {
    if (is_left_out(step, run.mode)) continue;
    stages[static_cast<std::size_t>(count++)] = {
        .kind = step.kind,
        .operand = step.operand == 0 ? nullptr : run.in(static_cast<std::size_t>(step.operand)),
        .factor = step.factor,
        .columns = step.columns,
        .dropout = step.dropout};
  }
  return count;
}

// The stages that run in this mode.
Bf16Arrays arrays_of_chain(const OpRun& run) {
  Bf16Arrays arrays{.in = run.stored_bf16(run.op.in[0]) ? 1U : 0U,
                    .out = run.stored_bf16(run.op.out[0]) ? 1U : 0U};
  std::uint32_t bit = 1;
  for (const ChainStep& step : run.op.chain) {
    if (is_left_out(step, run.mode)) continue;
    bit <<= 1;
    if (step.operand != 0 && run.stored_bf16(run.op.in[static_cast<std::size_t>(step.operand)]))
      arrays.in |= bit;
  }
  return arrays;
}

// A chain without stages that changes how its numbers are stored.
void convert_numbers(const OnCpu& on, const OpRun& run, bool widens, std::int64_t begin,
                     std::int64_t end) {
  if (widens) {
    const auto* const from = reinterpret_cast<const Bf16*>(run.in(0));
    on.kernels.widen(end - begin, from + begin, run.out(0) + begin);
  } else {
    auto* const to = reinterpret_cast<Bf16*>(run.out(0));
    on.kernels.narrow(end - begin, run.in(0) + begin, to + begin);
  }
}

// The chain over the elements [begin, end), a tile at a time: what is stored as bf16 is converted
// into memory of the tile and back, so nowhere else is it fp32.
void run_converted_chain(const OnCpu& on, const OpRun& run, const ChainStages& stages,
                         std::int64_t count, const Bf16Arrays& bf16, std::int64_t begin,
                         std::int64_t end) {
  Bf16Tile<kChainStepsMax + 2> tile(on.kernels);
  while (tile.next(begin, end)) {
    ChainStages of_tile = stages;
    const float* const x = tile.read(run.in(0), bf16.reads(0));
    for (std::int64_t s = 0; s < count; ++s) {
      ChainStage& stage = of_tile[static_cast<std::size_t>(s)];
      stage.operand = tile.read(stage.operand, bf16.reads(s + 1));
    }
    on.kernels.chain(tile.begin(), tile.end(), x, of_tile.data(), count, on.key,
                     tile.write(run.out(0), bf16.writes(0)));
    tile.finish();
  }
}

void run_chain(const OnCpu& on, const OpRun& run) {
  ChainStages stages;
  const std::int64_t count = chain_stages(run, stages), elements = run.in_shape().count();
  const float* const x = run.in(0);
  float* const y = run.out(0);
  const Bf16Arrays bf16 = arrays_of_chain(run);
  if (count == 0 && !bf16.any()) {
    // If the plan has given y the memory of x, there is nothing to copy.
    if (x != y) std::memcpy(y, x, static_cast<std::size_t>(elements) * sizeof(float));
    return;
  }
  const bool converts = count == 0 && bf16.reads(0) != bf16.writes(0);
  run.ranges({elements, kGrainFloats, run.threads()}, [&](std::int64_t begin, std::int64_t end) {
    if (converts) return convert_numbers(on, run, bf16.reads(0), begin, end);
    if (bf16.any()) return run_converted_chain(on, run, stages, count, bf16, begin, end);
    on.kernels.chain(begin, end, x, stages.data(), count, on.key, y);
  });
}

void queue_chain(const OnDevice& on, const OpRun& run) {
  ChainStages stages;
  const std::int64_t count = chain_stages(run, stages), elements = run.in_shape().count();
  const Bf16Arrays bf16 = arrays_of_chain(run);
  if (count != 0 || bf16.any())
    return on(on.kernels.chain, elements, run.in(0), stages.data(), count, bf16, on.key,
              run.out(0));
  copy_words(on, run, elements, run.in(0), run.out(0));
}

void run_uniform(const OnCpu& on, const OpRun& run) {
  const Cut cut(run.out_shape().count(), kGrainFloats, run.threads());
  run.ranges(cut, [&](std::int64_t begin, std::int64_t end) {
    on.kernels.uniform(begin, end, run.op.random_op, on.key, run.out(0));
  });
}

void queue_uniform(const OnDevice& on, const OpRun& run) {
  on(on.kernels.uniform, run.out_shape().count(), run.op.random_op, on.key, run.out(0));
}

constexpr Operator kElementwiseOperators[] = {
    {.kind = OpKind::kChain,
     .name = "element-wise",
     .kernels = "chain",
     .detail = chain_detail,
     .inputs = Inputs::kNumbers,
     .outputs = [](const Graph& graph, Op& op) -> OutputTensors {
       return std::vector<Tensor>{{graph.shape(op.in[0])}};
     },
     .reads_bf16 = chain_reads_bf16,
     .writes_bf16 = true,
     .gradient = chain_gradient,
     .in_place = [](const Op& op) { return op.in; },
     .run = {run_chain, queue_chain}},
    {.kind = OpKind::kUniform,
     .name = "uniform",
     .kernels = "uniform",
     .run = {run_uniform, queue_uniform}},
};

}  // namespace

std::span<const Operator> elementwise_operators() {
  return kElementwiseOperators;
}

}  // namespace es::gpu
