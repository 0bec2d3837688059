#pragma once
// The operators of a program that oneDNN runs instead of the canonical kernels (levels D0 and D1).
// Each is bound to one algorithm when the program is prepared.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/graph/differentiate.h"
#include "gpu/graph/op_run.h"
#include "gpu/onednn/onednn.h"

namespace es::gpu {

class OnednnOps {
 public:
  // No operator has a kernel: level D2.
  OnednnOps() = default;
  // Binds the operators that gpu/onednn/preference.h prefers for the class and that `library`
  // supports.
  OnednnOps(const Program& program, const OnednnLibrary& library, CpuClass cpu_class);

  // Runs every kernel once, on arbitrary contents of `buffers`. An operator whose kernel refuses
  // its work loses the kernel.
  void drop_refused(const Graph& graph, const RunBuffers& buffers);

  // Runs operator `index` and returns true, or returns false if it has no kernel of oneDNN. Error
  // (failure): the kernel's error. Not thread-safe, because kernels own scratch memory.
  Result<bool> run(std::size_t index, const Graph& graph, const RunBuffers& buffers) const;

  // Returns for example "brgconv:avx512_core"; empty if operator `index` has no kernel.
  std::string algorithm(std::size_t index) const;
  std::size_t count() const;
  // Returns the name and version of the library; empty if no operator has a kernel.
  std::string library() const { return count() == 0 ? "" : library_; }
  // Returns what StepRunner::vendor_refusals() describes.
  const std::vector<std::string>& refusals() const { return refusals_; }

 private:
  std::string library_;
  std::vector<std::string> refusals_;
  // [operator]; nullptr: the canonical kernel runs
  std::vector<std::unique_ptr<OnednnKernel>> kernels_;
};

}  // namespace es::gpu
