#pragma once
// The operators of a program that a vendor library runs instead of the canonical kernels (levels D0
// and D1), each bound to one algorithm when the program is made.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/graph/differentiate.h"
#include "gpu/graph/op_kernels.h"
#include "gpu/vendor/vendor.h"

namespace es::gpu {

// REQUIRES: is_conv(kind).
ConvPass conv_pass(OpKind kind);
// Whether the operator adds a bias to its convolution or product.
bool adds_bias(const Op& op);

// A line about an operator that a vendor library refuses.
std::string vendor_refusal(const Op& op, const Error& why);

class VendorOps {
 public:
  // No operator at all: level D2.
  VendorOps() = default;
  // Those that gpu/vendor/preference.h prefers for the class and `library` has.
  VendorOps(const Program& program, const VendorLibrary& library, CpuClass cpu_class);

  // Runs every kernel once, on whatever the memory of `buffers` holds; from then on operators whose
  // kernel refuses its work have none.
  void drop_refused(const Graph& graph, const RunBuffers& buffers);

  // Runs operator `index` and returns true, or false when it has no vendor kernel. Error (failure):
  // the kernel's. Not thread-safe: kernels own scratch.
  Result<bool> run(std::size_t index, const Graph& graph, const RunBuffers& buffers) const;

  // "brgconv:avx512_core", or nothing when operator `index` has no vendor kernel.
  std::string algorithm(std::size_t index) const;
  std::size_t count() const;
  // Name and version of the library, or nothing when no operator has a vendor kernel.
  std::string library() const { return count() == 0 ? "" : library_; }
  // As StepRunner::vendor_refusals().
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  std::string library_;
  std::vector<std::string> refusals_;
  std::vector<std::unique_ptr<VendorKernel>> kernels_;  // by operator; nullptr = canonical
};

}  // namespace es::gpu
