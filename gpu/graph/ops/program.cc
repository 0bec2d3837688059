// General element-wise operators. Before programs are joined, each computes one function of the
// table in functions.h, which has the gradients too.
#include "gpu/graph/emit.h"
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/bf16_tile.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/machine_code/tile_code.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

std::string program_detail(const Op& op) {
  return code_text(op.program->code);
}

// The numbers of the inputs of a gradient: dy, the operands, y.
constexpr std::int32_t kDy = 0, kFirstOperand = 1;

// Emits the gradient of one operand over the shape of y. Returns dy itself if that is the gradient.
TensorId operand_gradient(Gradients& g, const Op& op, std::size_t operand, TensorId dy) {
  const TensorShape shape = g.graph().shape(op.out[0]);
  CodeWriter writer;
  std::vector<ProgramOperand> operands = {{dy, repeated_strides(shape, shape)}};
  std::vector<Term> terms;
  for (std::size_t k = 0; k < op.in.size(); ++k) {
    terms.push_back(writer.input(kFirstOperand + static_cast<std::int32_t>(k)));
    operands.push_back({op.in[k], op.program->space.stride[k]});
  }
  operands.push_back({op.out[0], repeated_strides(shape, shape)});
  const Term dy_term = writer.input(kDy);
  const Term y = writer.input(kFirstOperand + static_cast<std::int32_t>(op.in.size()));
  const std::optional<Term> gradient =
      write_gradient(op.function, op.parameters, operand, dy_term, terms, y);
  // The gradient is +0, as that of the condition of a `where`.
  if (!gradient) return kNoTensor;
  // A sum, for example, passes dy on, so no operator has to copy it.
  if (gradient->id() == dy_term.id()) return dy;
  return g.emit_new(program_op(op.name, writer, {*gradient}, shape, operands), shape);
}

// The gradient of a repeated operand is the sum over all places where it was read.
void program_gradient(Gradients& g, const Op& op) {
  const TensorId dy = g.of(op.out[0]);
  const Emit emit = [&](Op reduction, const TensorShape& shape) {
    return g.emit_new(std::move(reduction), shape);
  };
  for (std::size_t k = 0; k < op.in.size(); ++k) {
    const TensorId x = op.in[k];
    if (!g.needed(x)) continue;
    const TensorId dx = operand_gradient(g, op, k, dy);
    if (dx == kNoTensor) continue;
    const TensorShape from = g.graph().shape(x), shape = g.graph().shape(op.out[0]);
    g.contribute(op.name, x,
                 emit_reduction(emit, op.name, dx, shape, Reduction::kSum,
                                repeated_axes(from, shape), from));
  }
}

// An input can be overwritten if every element is read only where the result goes.
std::vector<TensorId> program_in_place(const Op& op) {
  std::vector<TensorId> dense;
  // With several outputs, an input that one output overwrites could still be needed for another
  // one.
  if (op.out.size() != 1) return dense;
  const auto read_elsewhere = [&](TensorId t) {
    for (std::size_t k = 0; k < op.in.size(); ++k)
      if (op.in[k] == t && !reads_in_order(op.program->space, k)) return true;
    return false;
  };
  for (const TensorId t : op.in)
    if (!read_elsewhere(t)) dense.push_back(t);
  return dense;
}

// The code with few registers, and the addresses.
struct Call {
  ElementCode code;
  std::array<const float*, kProgramInputs> in = {};
  std::array<float*, kProgramOutputs> out = {};

  explicit Call(const OpRun& run) {
    // The graph keeps the code with a register for each instruction, the form in which programs are
    // joined. The kernels take few registers.
    const std::optional<ElementCode> few = with_few_registers(run.op.program->code);
    ES_CHECK_MSG(few.has_value(), run.op.name);
    code = *few;
    for (std::size_t k = 0; k < run.op.in.size(); ++k) in[k] = run.in(k);
    for (std::size_t k = 0; k < run.op.out.size(); ++k) out[k] = run.out(k);
  }
};

Bf16Arrays arrays_of_program(const OpRun& run) {
  Bf16Arrays arrays;
  for (std::size_t k = 0; k < run.op.in.size(); ++k)
    if (run.stored_bf16(run.op.in[k])) arrays.in |= 1U << k;
  for (std::size_t k = 0; k < run.op.out.size(); ++k)
    if (run.stored_bf16(run.op.out[k])) arrays.out |= 1U << k;
  return arrays;
}

// The elements [begin, end), a tile at a time. An input that is stored as bf16 is read in order.
void run_converted_program(const OnCpu& on, const OpRun& run, const Call& call,
                           TileCode machine_code, const Bf16Arrays& bf16, std::int64_t begin,
                           std::int64_t end) {
  Bf16Tile<kProgramInputs + kProgramOutputs> tile(on.kernels);
  while (tile.next(begin, end)) {
    Call of_tile = call;
    for (std::size_t k = 0; k < run.op.in.size(); ++k)
      of_tile.in[k] = tile.read(call.in[k], bf16.reads(static_cast<std::int64_t>(k)));
    for (std::size_t k = 0; k < run.op.out.size(); ++k)
      of_tile.out[k] = tile.write(call.out[k], bf16.writes(static_cast<std::int64_t>(k)));
    on.kernels.program(call.code, machine_code, run.op.program->space, of_tile.in.data(),
                       of_tile.out.data(), tile.begin(), tile.end());
    tile.finish();
  }
}

// Work of a thread: elements times instructions count as much as floats.
void run_program(const OnCpu& on, const OpRun& run) {
  const Call call(run);
  const Bf16Arrays bf16 = arrays_of_program(run);
  const std::int64_t elements = run.out_shape().count();
  const TileCode machine_code = tile_code(call.code, on.kernels.cpu_class, elements);
  run.ranges({elements, kGrainFloats, run.threads()}, [&](std::int64_t begin, std::int64_t end) {
    if (bf16.any()) return run_converted_program(on, run, call, machine_code, bf16, begin, end);
    on.kernels.program(call.code, machine_code, run.op.program->space, call.in.data(),
                       call.out.data(), begin, end);
  });
}

void queue_program(const OnDevice& on, const OpRun& run) {
  const Call call(run);
  on(on.kernels.program, call.code, run.op.program->space, arrays_of_program(run), call.in.data(),
     call.out.data(), run.out_shape().count());
}

constexpr Operator kProgramOperators[] = {
    {.kind = OpKind::kProgram,
     .name = "program",
     .kernels = "program",
     .detail = program_detail,
     .reads_bf16 = [](const Op& op, std::size_t k) { return reads_in_order(op.program->space, k); },
     .writes_bf16 = true,
     .gradient = program_gradient,
     .in_place = program_in_place,
     .run = {run_program, queue_program}},
};

}  // namespace

std::span<const Operator> program_operators() {
  return kProgramOperators;
}

}  // namespace es::gpu
