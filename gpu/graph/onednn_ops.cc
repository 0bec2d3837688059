#include "gpu/graph/onednn_ops.h"

#include <algorithm>

#include "gpu/graph/dense_op.h"
#include "gpu/onednn/preference.h"

namespace es::gpu {

namespace {

using MadeKernel = Result<std::unique_ptr<OnednnKernel>>;

// No kernel is no error: the canonical kernel runs.
MadeKernel no_kernel() {
  return std::unique_ptr<OnednnKernel>();
}

MadeKernel bind(const Graph& graph, const Op& op, const OnednnLibrary& library,
                CpuClass cpu_class) {
  if (is_conv(op.kind))
    return onednn_preferred(cpu_class, op.conv, conv_pass(op.kind))
               ? library.conv(op.conv, conv_pass(op.kind), adds_bias(op))
               : no_kernel();
  // A kernel reads fp32 only.
  if (!is_library_product(graph, op.kind) || converted_floats({graph, op}) != 0) return no_kernel();
  const MatmulShape products = product_of(graph, op);
  // Batches of products have no kernel here.
  const bool bound = products.count == 1 && onednn_preferred(cpu_class, products.gemm);
  return bound ? library.gemm(products.gemm, adds_bias(op)) : no_kernel();
}

}  // namespace

OnednnOps::OnednnOps(const Program& program, const OnednnLibrary& library, CpuClass cpu_class)
    : library_(library.name()) {
  for (const Op& op : program.graph.ops) {
    MadeKernel made = bind(program.graph, op, library, cpu_class);
    // The worker's log names the operators that the library refuses
    // (StepRunner::vendor_refusals()).
    if (!made) refusals_.push_back(vendor_refusal(op, made.error()));
    kernels_.push_back(made ? *std::move(made) : nullptr);
  }
}

void OnednnOps::drop_refused(const Graph& graph, const RunBuffers& buffers) {
  // Creation alone does not prove that a kernel works: it can still refuse its work when it runs.
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    const Result<bool> ran = run(i, graph, buffers);
    if (ran) continue;
    refusals_.push_back(vendor_refusal(graph.ops[i], ran.error()));
    kernels_[i].reset();
  }
}

Result<bool> OnednnOps::run(std::size_t index, const Graph& graph,
                            const RunBuffers& buffers) const {
  if (index >= kernels_.size() || kernels_[index] == nullptr) return false;
  const DenseCall call = dense_call(graph, graph.ops[index], buffers);
  ES_RETURN_IF_ERROR(kernels_[index]->run(call.a, call.b, call.bias, call.out));
  return true;
}

std::string OnednnOps::algorithm(std::size_t index) const {
  return index < kernels_.size() && kernels_[index] ? kernels_[index]->algorithm() : "";
}

std::size_t OnednnOps::count() const {
  return static_cast<std::size_t>(
      std::count_if(kernels_.begin(), kernels_.end(), [](const auto& k) { return k != nullptr; }));
}

}  // namespace es::gpu
