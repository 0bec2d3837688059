// Scaled dot-product attention. The work is divided by heads. Every thread has its own scratch
// memory.
#include <cmath>
#include <numeric>

#include "gpu/canonical/attention_math.h"
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"
#include "gpu/graph/ops/scratch.h"

namespace es::gpu {
namespace {

// 1 / sqrt(d), computed in 64 bits with operations that IEEE-754 rounds exactly, and rounded once.
float attention_scale(std::int64_t d) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(d)));
}

// The same for an attention by_head, whose heads, shared and key_tokens the builder has set.
OutputTensors by_head_outputs(const TensorShape& q, AttentionShape& a) {
  a.batch = q[0];
  a.tokens = q[2];
  a.head_dim = a.qkv_stride = a.y_stride = q[3];
  a.scale = attention_scale(a.head_dim);
  return std::vector<Tensor>{{q}, {ImageShape{q[0], q[1], q[2], kRowStats}}};
}

// Completes the shape from q (or the packed rows). The builder has set heads, and appended the
// operands of attention_in.
OutputTensors attention_outputs(const Graph& graph, Op& op) {
  AttentionShape& a = op.attention;
  if (a.by_head) return by_head_outputs(graph.shape(op.in[0]), a);
  const ImageShape in = image_of(graph.shape(op.in[0]));
  const std::int64_t width = op.attention_in.packed ? in.c / 3 : in.c;
  if (in.w != 1 || a.heads < 1 || width % a.heads != 0)
    return usage_error("input " + shape_text(in) +
                       " must be [n,t,1,heads*d] with heads = " + std::to_string(a.heads));
  a.batch = in.n;
  a.tokens = in.h;
  a.head_dim = width / a.heads;
  a.qkv_stride = in.c;
  a.y_stride = width;
  a.scale = attention_scale(a.head_dim);
  return std::vector<Tensor>{{ImageShape{in.n, in.h, 1, width}},
                             {ImageShape{in.n, a.heads, in.h, kRowStats}}};
}

void attention_gradient(Gradients& g, const Op& op) {
  std::vector<TensorId> in = op.in, out;
  in.push_back(op.out[1]);
  in.push_back(g.of(op.out[0]));
  const auto products = static_cast<std::size_t>(op.attention_in.first_extra());
  for (std::size_t i = 0; i < products; ++i) out.push_back(g.add_tensor(g.graph().shape(op.in[i])));
  const TensorId bias =
      op.attention_in.bias < 0 ? kNoTensor : op.in[static_cast<std::size_t>(op.attention_in.bias)];
  // The gradients of q, k and v come from one kernel, so all three are outputs even if one is not
  // needed. That of the bias is a sum of its own, which the kernel leaves out.
  const bool bias_grad = bias != kNoTensor && g.needed(bias);
  if (bias_grad) out.push_back(g.add_tensor(g.graph().shape(bias)));
  Op attention = op;
  attention.attention.bias_gradient = bias_grad;
  g.emit(attention, OpKind::kAttentionGrad, std::move(in), out);
  for (std::size_t i = 0; i < products; ++i) g.contribute(op.name, op.in[i], out[i]);
  if (bias_grad) g.contribute(op.name, bias, out.back());
}

// Q, k and v, or the packed tensor.
std::vector<std::size_t> attention_factors(const Op& op) {
  std::vector<std::size_t> factors(static_cast<std::size_t>(op.attention_in.first_extra()));
  std::iota(factors.begin(), factors.end(), std::size_t{0});
  return factors;
}

// The same, and dy.
std::vector<std::size_t> attention_gradient_factors(const Op& op) {
  std::vector<std::size_t> factors = attention_factors(op);
  factors.push_back(op.in.size() - 1);
  return factors;
}

// --- The arguments of the kernels.

struct Products {
  float *q, *k, *v;
};

// Q, k and v are the tensors at the first positions of the inputs (or outputs), or parts of one
// packed tensor.
template <class Address>
Products products(const Op& op, Address&& address) {
  if (!op.attention_in.packed) return {address(0), address(1), address(2)};
  // A row of the packed tensor has q, k and v of all heads side by side; qkv_stride leads to the
  // next token.
  const std::int64_t width = op.attention.heads * op.attention.head_dim;
  return {address(0), address(0) + width, address(0) + 2 * width};
}

Products inputs_of(const OpRun& run) {
  return products(run.op, [&](std::size_t i) { return run.in(i); });
}
Products outputs_of(const OpRun& run) {
  return products(run.op, [&](std::size_t i) { return run.out(i); });
}

AttentionExtras extras_of(const OpRun& run) {
  const auto extra = [&](std::int32_t index) -> const float* {
    return index < 0 ? nullptr : run.in(static_cast<std::size_t>(index));
  };
  const auto integers = [&](std::int32_t index) {
    return reinterpret_cast<const std::int32_t*>(extra(index));
  };
  const AttentionInputs& in = run.op.attention_in;
  return {extra(in.bias), extra(in.mask), integers(in.length), integers(in.first)};
}

// Returns where the gradient of the bias goes; nullptr: it is not needed.
float* bias_gradient(const OpRun& run) {
  if (!run.op.attention.bias_gradient) return nullptr;
  return run.out(static_cast<std::size_t>(run.op.attention_in.first_extra()));
}

// --- Execution.

AttentionShape heads(const AttentionShape& shape, std::int64_t begin, std::int64_t end) {
  AttentionShape part = shape;
  part.head_begin = begin;
  part.head_count = end - begin;
  return part;
}

// A head of keys is the unit of work for a thread, because its keys get the sums over the queries
// of all heads that share them, and its bias the sum over all sequences; these must not be divided.
Cut by_heads(const AttentionShape& shape, int threads) {
  return {shape.heads, 1, threads};
}

Scratch scratch_of(const KernelTable& k, const AttentionShape& shape, int threads) {
  const Cut cut = by_heads(shape, threads);
  Scratch scratch(threads);
  for (std::int64_t i = 0; i < cut.parts; ++i)
    scratch.cover(k.attention_workspace_floats(heads(shape, cut.begin(i), cut.end(i))));
  return scratch;
}

// Calls task(shape, workspace) for parts of the heads.
template <class Task>
void over_heads(const OnCpu& on, const OpRun& run, const AttentionShape& shape, Task&& task) {
  const Cut cut = by_heads(shape, run.threads());
  const Scratch scratch =
      scratch_for(run.threads(), [&] { return scratch_of(on.kernels, shape, run.threads()); });
  run.parts(cut.parts, [&](int i) {
    task(heads(shape, cut.begin(i), cut.end(i)), scratch.of_part(run.buffers.workspace, i));
  });
}
// A device computes all heads at once.
template <class Task>
void over_heads(const OnDevice&, const OpRun& run, const AttentionShape& shape, Task&& task) {
  task(shape, run.buffers.workspace);
}

template <class On>
void attention(const On& on, const OpRun& run) {
  const auto [q, k, v] = inputs_of(run);
  const AttentionExtras extras = extras_of(run);
  AttentionShape shape = run.op.attention;
  // A backward pass exists in training only, and draws the same decisions again from the key.
  if (run.mode == RunMode::kEvaluate) shape.dropout = {};
  over_heads(on, run, shape, [&, q = q, k = k, v = v](const AttentionShape& part, float* ws) {
    on(on.kernels.attention_fwd, part, q, k, v, extras, on.key, run.out(0), run.out(1), ws);
  });
}

template <class On>
void attention_backward(const On& on, const OpRun& run) {
  const auto [q, k, v] = inputs_of(run);
  const auto [dq, dk, dv] = outputs_of(run);
  // attention_gradient() has put these two behind the inputs of the forward operator.
  const float* const stats = run.in(run.op.in.size() - 2);
  const float* const dy = run.in(run.op.in.size() - 1);
  float* const dbias = bias_gradient(run);
  const AttentionExtras extras = extras_of(run);
  over_heads(
      on, run, run.op.attention,
      [&, q = q, k = k, v = v, dq = dq, dk = dk, dv = dv](const AttentionShape& part, float* ws) {
        on(on.kernels.attention_bwd, part, q, k, v, extras, stats, dy, on.key, dq, dk, dv, dbias,
           ws);
      });
}

constexpr Workspace kAttentionWorkspace = {
    [](const KernelTable& k, const OpShapes& op, int threads) {
      return scratch_of(k, op.op.attention, threads).all();
    },
    [](const cuda::DeviceKernels& k, const OpShapes& op) {
      return k.attention_workspace_floats(op.op.attention);
    }};

constexpr Operator kAttentionOperators[] = {
    {.kind = OpKind::kAttention,
     .name = "attention",
     .kernels = "attention_fwd, attention_bwd",
     .inputs = Inputs::kImages,
     .inputs_checked = 1,
     .outputs = attention_outputs,
     .stored = Stored::kFirstBf16,
     .factors = attention_factors,
     .gradient = attention_gradient,
     .workspace = kAttentionWorkspace,
     .run = [](const auto& on, const OpRun& run) { attention(on, run); }},
    {.kind = OpKind::kAttentionGrad,
     .name = "attention gradient",
     .factors = attention_gradient_factors,
     .workspace = kAttentionWorkspace,
     .run = [](const auto& on, const OpRun& run) { attention_backward(on, run); }},
};

}  // namespace

std::span<const Operator> attention_operators() {
  return kAttentionOperators;
}

}  // namespace es::gpu
