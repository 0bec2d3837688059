// Parameters as tensors: of operators that have no parameters of their own, and of parameters that
// several operators use. The gradients of all uses are added like those of any tensor.
#include <cstring>

#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

void parameter_gradient(Gradients& g, const Op& op) {
  // A frozen parameter needs no gradient.
  if (g.needed(op.out[0])) g.emit(op, OpKind::kParameterGrad, {g.of(op.out[0])}, {});
}

void run_parameter_gradient(const OnCpu& on, const OpRun& run) {
  float* const to = run.weight_grad();  // which also sets the padding
  const std::int64_t count = run.weight_count();
  // The memory plan may have put the input there.
  if (!run.op.in.empty()) return copy_words(on, run, count, run.in(0), to);
  // Without an input the loss does not depend on the parameter (Gradients::clear_untouched).
  run.ranges({count, kGrainFloats, run.threads()}, [&](std::int64_t begin, std::int64_t end) {
    std::memset(to + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(float));
  });
}

void queue_parameter_gradient(const OnDevice& on, const OpRun& run) {
  const std::int64_t count = run.weight_count();
  if (run.op.in.empty()) return on(on.kernels.fill_zero, count, run.weight_grad());
  copy_words(on, run, count, run.in(0), run.weight_grad());
}

constexpr Operator kParameterOperators[] = {
    {.kind = OpKind::kParameter,
     .name = "parameter",
     .gradient = parameter_gradient,
     .in_params = true,
     .run = [](const auto&, const OpRun&) {}},
    {.kind = OpKind::kParameterGrad,
     .name = "parameter gradient",
     .kernels = "move",
     .writes_weight_grad = true,
     .run = {run_parameter_gradient, queue_parameter_gradient}},
};

}  // namespace

std::span<const Operator> parameter_operators() {
  return kParameterOperators;
}

}  // namespace es::gpu
