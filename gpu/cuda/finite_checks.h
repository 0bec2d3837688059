#pragma once
// FiniteChecks searches the outputs of a local step's operators, on the device, for values that are
// not finite, and reports the operator that wrote the first one. A GPU has no sticky floating-point
// flags, so the outputs are read once more. Several outputs are read together, as long as no
// operator overwrites them and they are in the cache.
//
// Threads: one at a time. Errors: those of the device.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gpu/cuda/device.h"
#include "gpu/graph/op_results.h"
#include "gpu/graph/step_runner.h"

namespace es::gpu::cuda {

class FiniteChecks {
 public:
  enum class Scope {
    kAll,      // every output of every operator: the device notices what a CPU notices
    kVisible,  // the loss, the statistics, the gradients of parameters
  };

  static constexpr std::size_t kVariants = 2;

  // Allocates a word for each result and variant, in host memory to which the device writes if it
  // finds something. Both arguments must outlive this object. Error (failure): memory is missing.
  static Result<std::unique_ptr<FiniteChecks>> create(Device& device, const Graph& graph);

  // Applies from the next operator on. The scope is kAll at first.
  void set_scope(Scope scope) { scope_ = scope; }

  // Selects one of two local steps; all other calls refer to it. Two, because the next step may
  // begin while the current one is in progress.
  void use(std::size_t variant) { found_ = words_ + variant * results_.size(); }
  // Begins a local step. REQUIRES: no work of the previous step of this variant is in progress.
  void begin();
  // --- Queued work: before() and after() around each operator; finish() at any time and at the
  // end.
  void before(Stream stream, std::size_t op, const RunBuffers& buffers);
  void after(Stream stream, std::size_t op, const RunBuffers& buffers);
  void finish(Stream stream);

  // Returns the first fault of the operators [first, end). REQUIRES: the host has waited for the
  // work that finish() queued behind them.
  Fault fault(std::size_t first, std::size_t end) const;

 private:
  FiniteChecks(Device& device, const Graph& graph) : device_(device), graph_(graph) {}
  bool wanted(const OpResult& result) const;

  Device& device_;
  const Graph& graph_;
  std::vector<OpResult> results_;   // results of all operators; each has a word
  std::vector<std::size_t> begin_;  // [operator], and one more: index of its first result
  std::int32_t *words_ = nullptr, *found_ = nullptr;  // of all variants; of the selected variant
  Scope scope_ = Scope::kAll;
  std::vector<FiniteCheck> pending_;
  std::int64_t pending_floats_ = 0;
};

}  // namespace es::gpu::cuda
