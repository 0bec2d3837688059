#include "gpu/graph/dense_op.h"

#include "proto/base/check.h"

namespace es::gpu {

bool is_conv(OpKind kind) {
  return op_def(kind).dense.conv.has_value();
}

bool is_gemm(OpKind kind) {
  return op_def(kind).dense.product != nullptr;
}

bool is_library_product(const Graph& graph, OpKind kind) {
  return is_gemm(kind) && graph.arithmetic == Arithmetic::kFp32;
}

ConvPass conv_pass(OpKind kind) {
  ES_CHECK(is_conv(kind));
  return *op_def(kind).dense.conv;
}

MatmulShape product_of(const Graph& graph, const Op& op) {
  ES_CHECK_MSG(is_gemm(op.kind), op.name);
  MatmulShape shape = op_def(op.kind).dense.product({graph, op});
  shape.gemm.a_stored = shape.gemm.b_stored = Factor::kF32;
  return shape;
}

// A library binds its kernel to this answer before any address is known, so it comes from the
// operator and not from DenseCall::bias.
bool adds_bias(const Op& op) {
  return op_def(op.kind).dense.takes_bias && (op.bias != kNoParam || op.tensors.bias >= 0);
}

DenseCall dense_call(const Graph& graph, const Op& op, const RunBuffers& buffers) {
  const auto call = op_def(op.kind).dense.call;
  ES_CHECK_MSG(call != nullptr, op.name);
  return call(OpRun(graph, op, buffers));
}

namespace {

constexpr std::int64_t kAlignmentFloats = 64;
constexpr ChainStage kRounding{.kind = ChainKind::kRoundBf16};

// Calls with(input, floats of memory) for the inputs that are converted.
template <class With>
void for_converted(const OpShapes& op, With&& with) {
  const Operator& entry = op_def(op.op.kind);
  if (!op.graph.bf16 || !entry.converts_factors) return;
  for (const std::size_t i : entry.factors(op.op)) {
    const std::int64_t count = op.in_shape(i).count();
    with(i, (count + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats);
  }
}

// Returns the floats of the weight that an operator rounds itself; 0: there is none.
std::int64_t rounded_weight_floats(const OpShapes& op) {
  if (!op.graph.bf16 || !op_def(op.op.kind).rounds_weight) return 0;
  const GemmShape product = product_of(op.graph, op.op).gemm;
  return product.k * product.n;
}

}  // namespace

std::int64_t converted_floats(const OpShapes& op) {
  std::int64_t floats = 0;
  for_converted(op, [&](std::size_t, std::int64_t needed) { floats += needed; });
  return floats;
}

float* convert_factors(const OnDevice& on, const OpRun& run, float* memory, DenseCall& call) {
  for_converted(run, [&](std::size_t i, std::int64_t floats) {
    const float* const stored = run.in(i);
    const bool bf16 = run.stored_bf16(run.op.in[i]);
    on(on.kernels.chain, run.in_shape(i).count(), stored, &kRounding, std::int64_t{bf16 ? 0 : 1},
       Bf16Arrays{.in = bf16 ? 1U : 0U}, on.key, memory);
    // Both operands may be the same tensor.
    if (call.a == stored) call.a = memory;
    if (call.b == stored) call.b = memory;
    memory += floats;
  });
  return memory;
}

std::int64_t library_converted_floats(const OpShapes& op) {
  return converted_floats(op) + rounded_weight_floats(op);
}

void convert_for_library(const OnDevice& on, const OpRun& run, float* memory, DenseCall& call) {
  float* const weight = convert_factors(on, run, memory, call);
  const std::int64_t count = rounded_weight_floats(run);
  if (count == 0) return;
  on(on.kernels.chain, count, call.b, &kRounding, std::int64_t{1}, Bf16Arrays(), on.key, weight);
  call.b = weight;
}

std::string vendor_refusal(const Op& op, const Error& why) {
  return op.name + " (" + op_name(op.kind) + "): " + why.message + ", so the canonical kernel runs";
}

}  // namespace es::gpu
