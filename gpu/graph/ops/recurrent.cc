// Recurrent layers: LSTM and GRU. The products of the inputs are computed before, by one linear
// layer over all times. The work is divided by sequences, each of which takes all time steps, so
// threads wait for each other only at the end.
#include "gpu/graph/gradients.h"
#include "gpu/graph/move_shapes.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/ops/scratch.h"

namespace es::gpu {
namespace {

bool is_lstm(const Op& op) {
  return op.recurrence.cell == RecurrentCell::kLstm;
}

// X is [times,rows,gates * units]. A gradient has the gates in place of x.
struct RecurrentExtents {
  std::int64_t times, rows, units, width;  // width: gates * units

  explicit RecurrentExtents(const OpShapes& op)
      : times(op.in_shape()[0]),
        rows(op.in_shape()[1]),
        units(op.in_shape()[2] / op.op.recurrence.gates()),
        width(op.in_shape()[2]) {}
};

OutputTensors recurrent_outputs(const Graph& graph, Op& op) {
  const TensorShape& x = graph.shape(op.in[0]);
  const std::int64_t gates = op.recurrence.gates();
  if (x.rank() != 3 || x[2] % gates != 0)
    return usage_error("x " + shape_text(x) + " must be [t,n," + std::to_string(gates) + "*units]");
  const TensorShape state{x[1], x[2] / gates};
  for (std::size_t i = 1; i <= (is_lstm(op) ? 2 : 1); ++i)
    if (graph.shape(op.in[i]) != state)
      return usage_error("the first state " + shape_text(graph.shape(op.in[i])) + " must be " +
                         shape_text(state));
  const TensorShape kept{x[0], state[0], state[1]};
  return std::vector<Tensor>{{with_extent(kept, 0, x[0] + (is_lstm(op) ? 1 : 0))}, {x}, {kept}};
}

// --- Gradient.

// Copies the hidden states before the steps, [t,n,units]: h, and the states of other times.
Move states_before(const TensorShape& state, std::int64_t times, bool reverse) {
  const std::int64_t words = state.count(), others = (times - 1) * words;
  const auto copy = [](std::int32_t source, std::int64_t from, std::int64_t to,
                       std::int64_t count) {
    BlockCopy c{.source = source, .source_offset = from, .target_offset = to};
    c.size[kMoveRank - 1] = count;
    c.source_stride[kMoveRank - 1] = c.target_stride[kMoveRank - 1] = 1;
    return c;
  };
  Move move = {copy(0, 0, reverse ? others : 0, words)};
  if (times > 1) move.push_back(copy(1, reverse ? words : 0, reverse ? 0 : words, others));
  return move;
}

// Emits the gradient of the recurrent weight: one product over all times and sequences.
void emit_recurrent_weight_grad(Gradients& g, const Op& op, TensorId dproduct) {
  const TensorShape kept = g.graph().shape(op.out[2]), state = g.graph().shape(op.in[1]);
  Op before{.kind = OpKind::kMove, .name = op.name, .in = {op.in[1], op.out[0]}};
  before.move = states_before(state, kept[0], op.recurrence.reverse);
  if (kept[0] == 1) before.in.pop_back();
  g.emit_weight_grad(op, OpKind::kLinearWgrad, {g.emit_new(std::move(before), kept), dproduct});
}

void recurrent_gradient(Gradients& g, const Op& op) {
  const TensorId x = op.in[0], states = op.out[0], gates = op.out[1], kept = op.out[2];
  const TensorShape wide = g.graph().shape(x), state = g.graph().shape(op.in[1]);
  Op grad = op;
  grad.tensors = {};
  std::vector<TensorId> in = {gates, kept, is_lstm(op) ? kept : states,
                              is_lstm(op) ? op.in[2] : op.in[1], g.of(states)};
  if (op.tensors.weight >= 0) {
    grad.tensors.weight = static_cast<std::int32_t>(in.size());
    in.push_back(op.in[static_cast<std::size_t>(op.tensors.weight)]);
  }
  const TensorId dx = g.add_tensor(wide), dh = g.add_tensor(state), carry = g.add_tensor(state);
  const TensorId dproduct = is_lstm(op) ? dx : g.add_tensor(wide);
  std::vector<TensorId> out = {dx, dh, carry};
  if (dproduct != dx) out.push_back(dproduct);
  g.emit(grad, OpKind::kRecurrentGrad, std::move(in), std::move(out));
  g.contribute(op.name, x, dx);
  g.contribute(op.name, op.in[1], dh);
  if (is_lstm(op)) g.contribute(op.name, op.in[2], carry);
  g.emit_bias_grad(op, OpKind::kBiasGrad, {dproduct});
  emit_recurrent_weight_grad(g, op, dproduct);
}

// --- The products of a step, h W^T and dproduct W, with W [width][units].

GemmShape step_product(const RecurrentExtents& e, std::int64_t rows) {
  return {.m = rows,
          .n = e.width,
          .k = e.units,
          .a_row = e.units,
          .a_col = 1,
          .b_row = 1,
          .b_col = e.units,
          .c_row = e.width,
          .c_col = 1};
}

GemmShape step_gradient(const RecurrentExtents& e, std::int64_t rows) {
  return {.m = rows,
          .n = e.units,
          .k = e.width,
          .a_row = e.width,
          .a_col = 1,
          .b_row = e.units,
          .b_col = 1,
          .c_row = e.units,
          .c_col = 1};
}

void step_gemm(const OnCpu& on, const GemmShape& shape, const float* a, const float* b,
               const float* bias, float* c, float* ws) {
  on.kernels.gemm(shape, a, b, bias, c, ws);
}
void step_gemm(const OnDevice& on, const GemmShape& shape, const float* a, const float* b,
               const float* bias, float* c, float* ws) {
  on(on.kernels.gemm, shape, 1, 0, 0, 0, a, b, bias, c, ws);
}

std::size_t step_gemm_floats(const KernelTable& k, const GemmShape& shape) {
  return k.gemm_workspace_floats(shape);
}
std::size_t step_gemm_floats(const cuda::DeviceKernels& k, const GemmShape& shape) {
  return k.gemm_workspace_floats(shape, 1);
}

void set_zero(const OnCpu&, std::int64_t count, float* y) {
  std::fill_n(y, count, 0.0F);
}
void set_zero(const OnDevice& on, std::int64_t count, float* y) {
  on(on.kernels.fill_zero, count, y);
}

// --- Execution of the sequences [begin, end).

// The scratch memory of a part: the products of a step of the forward pass, then that of a product.
std::size_t products_floats(const RecurrentExtents& e, std::int64_t rows) {
  return static_cast<std::size_t>((rows * e.width + 15) / 16 * 16);
}

// The time of each step, and addresses by time of the part's rows.
struct Steps {
  RecurrentExtents e;
  std::int64_t begin, rows;
  bool reverse;

  Steps(const OpRun& run, std::int64_t begin, std::int64_t end)
      : e(run), begin(begin), rows(end - begin), reverse(run.op.recurrence.reverse) {}

  std::int64_t time(std::int64_t step) const { return reverse ? e.times - 1 - step : step; }
  // `width`: floats of a row.
  float* at(float* x, std::int64_t time, std::int64_t width) const {
    return x + (time * e.rows + begin) * width;
  }
  // The state before a step, of states by time and the first state.
  const float* before(float* states, float* first, std::int64_t step) const {
    return step == 0 ? at(first, 0, e.units) : at(states, time(step - 1), e.units);
  }
};

template <class On>
void run_steps(const On& on, const OpRun& run, const Steps& s, float* product) {
  const bool lstm = is_lstm(run.op);
  const GemmShape shape = step_product(s.e, s.rows);
  float* const ws = product + products_floats(s.e, s.rows);
  for (std::int64_t step = 0; step < s.e.times; ++step) {
    const std::int64_t time = s.time(step);
    const float* const h = s.before(run.out(0), run.in(1), step);
    step_gemm(on, shape, h, run.weight(), run.bias(), product, ws);
    const bool copies = lstm && step == s.e.times - 1;
    on(on.kernels.recurrent_fwd,
       RecurrentForward{.cell = run.op.recurrence.cell,
                        .rows = s.rows,
                        .units = s.e.units,
                        .x = s.at(run.in(0), time, s.e.width),
                        .product = product,
                        .before = lstm ? s.before(run.out(2), run.in(2), step) : h,
                        .gates = s.at(run.out(1), time, s.e.width),
                        .kept = s.at(run.out(2), time, s.e.units),
                        .y = s.at(run.out(0), time, s.e.units),
                        .last = copies ? s.at(run.out(0), s.e.times, s.e.units) : nullptr});
  }
}

// The gradient of the hidden state gets a product from the step after, and a GRU's a carry too.
template <class On>
void run_steps_back(const On& on, const OpRun& run, const Steps& s, float* ws) {
  const bool lstm = is_lstm(run.op);
  const GemmShape shape = step_gradient(s.e, s.rows);
  const std::int64_t count = s.rows * s.e.units;
  float *const dh = s.at(run.out(1), 0, s.e.units), *const carry = s.at(run.out(2), 0, s.e.units);
  set_zero(on, count, dh);
  if (lstm) {
    on(on.kernels.add, count, dh, s.at(run.in(4), s.e.times, s.e.units), carry);
  } else {
    set_zero(on, count, carry);
  }
  for (std::int64_t step = s.e.times; step-- > 0;) {
    const std::int64_t time = s.time(step);
    float* const dx = s.at(run.out(0), time, s.e.width);
    float* const dproduct = lstm ? dx : s.at(run.out(3), time, s.e.width);
    on(on.kernels.recurrent_bwd, RecurrentBackward{.cell = run.op.recurrence.cell,
                                                   .rows = s.rows,
                                                   .units = s.e.units,
                                                   .gates = s.at(run.in(0), time, s.e.width),
                                                   .before = s.before(run.in(2), run.in(3), step),
                                                   .kept = s.at(run.in(1), time, s.e.units),
                                                   .dy = s.at(run.in(4), time, s.e.units),
                                                   .product = dh,
                                                   .carry = carry,
                                                   .dx = dx,
                                                   .dproduct = dproduct});
    step_gemm(on, shape, dproduct, run.weight(), nullptr, dh, ws);
  }
  if (!lstm) on(on.kernels.add, count, carry, dh, dh);
}

// --- Scratch memory and the division of the work.

Cut by_sequences(const RecurrentExtents& e, int threads) {
  return {e.rows, 1, threads};
}

template <class Kernels>
std::size_t floats_of_part(const Kernels& k, const OpShapes& op, std::int64_t rows) {
  const RecurrentExtents e(op);
  if (op.op.kind == OpKind::kRecurrentGrad) return step_gemm_floats(k, step_gradient(e, rows));
  return products_floats(e, rows) + step_gemm_floats(k, step_product(e, rows));
}

Scratch scratch_of_sequences(const KernelTable& k, const OpShapes& op, int threads) {
  const Cut cut = by_sequences(RecurrentExtents(op), threads);
  Scratch scratch(threads);
  for (std::int64_t i = 0; i < cut.parts; ++i)
    scratch.cover(floats_of_part(k, op, cut.end(i) - cut.begin(i)));
  return scratch;
}

// Calls task(steps, workspace) for parts of the sequences.
template <class Task>
void over_sequences(const OnCpu& on, const OpRun& run, Task&& task) {
  const Cut cut = by_sequences(RecurrentExtents(run), run.threads());
  const Scratch scratch = scratch_for(
      run.threads(), [&] { return scratch_of_sequences(on.kernels, run, run.threads()); });
  run.parts(cut.parts, [&](int i) {
    task(Steps(run, cut.begin(i), cut.end(i)), scratch.of_part(run.buffers.workspace, i));
  });
}
// A device computes all sequences at once.
template <class Task>
void over_sequences(const OnDevice&, const OpRun& run, Task&& task) {
  task(Steps(run, 0, RecurrentExtents(run).rows), run.buffers.workspace);
}

constexpr Workspace kRecurrentWorkspace = {
    [](const KernelTable& k, const OpShapes& op, int threads) {
      return scratch_of_sequences(k, op, threads).all();
    },
    [](const cuda::DeviceKernels& k, const OpShapes& op) {
      return floats_of_part(k, op, RecurrentExtents(op).rows);
    }};

constexpr auto kOverFirstInput = [](const Op& op) { return std::vector<TensorId>{op.in[0]}; };

constexpr Operator kRecurrentOperators[] = {
    {.kind = OpKind::kRecurrent,
     .name = "recurrent",
     .kernels = "gemm, recurrent_fwd, recurrent_bwd",
     .detail = [](const Op& op) { return std::string(is_lstm(op) ? "lstm" : "gru"); },
     .inputs = Inputs::kDense,
     .outputs = recurrent_outputs,
     .stored = Stored::kF32,
     .gradient = recurrent_gradient,
     .in_place = kOverFirstInput,
     .in_place_output = 1,
     .workspace = kRecurrentWorkspace,
     .run =
         [](const auto& on, const OpRun& run) {
           over_sequences(on, run, [&](const Steps& s, float* ws) { run_steps(on, run, s, ws); });
         }},
    {.kind = OpKind::kRecurrentGrad,
     .name = "recurrent gradient",
     .in_place = kOverFirstInput,
     .workspace = kRecurrentWorkspace,
     .run =
         [](const auto& on, const OpRun& run) {
           over_sequences(on, run,
                          [&](const Steps& s, float* ws) { run_steps_back(on, run, s, ws); });
         }},
};

}  // namespace

std::span<const Operator> recurrent_operators() {
  return kRecurrentOperators;
}

}  // namespace es::gpu
