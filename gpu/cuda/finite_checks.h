#pragma once
// FiniteChecks: looks for values that are not finite in what the operators of a local step write,
// on the device, and says which operator wrote the first. A GPU has no sticky floating-point flags,
// so results are read once more: together, as long as nothing overwrites them and they are in the
// cache.
//
// Threads: one at a time. Errors: the device's.
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
    kAll,      // every result of every operator: what a CPU notices is noticed
    kVisible,  // the loss, statistics, gradients of parameters: what has an effect on those is
  };

  static constexpr std::size_t kVariants = 2;

  // Takes a word for each result and variant, in host memory that the device writes to when it
  // finds something. Both arguments outlive it. Error (failure): missing memory.
  static Result<std::unique_ptr<FiniteChecks>> create(Device& device, const Graph& graph);

  // From the next operator on; kAll at first.
  void set_scope(Scope scope) { scope_ = scope; }

  // From now on all is about one of two local steps: one may begin while the other is under way.
  void use(std::size_t variant) { found_ = words_ + variant * results_.size(); }
  // The local step begins. REQUIRES: nothing of the one before of this variant is under way.
  void begin();
  // --- Queued, around each operator; finish() at any time, and at last.
  void before(Stream stream, std::size_t op, const RunBuffers& buffers);
  void after(Stream stream, std::size_t op, const RunBuffers& buffers);
  void finish(Stream stream);

  // Of operators [first, end). REQUIRES: the host has waited for what finish() queued behind them.
  Fault fault(std::size_t first, std::size_t end) const;

 private:
  FiniteChecks(Device& device, const Graph& graph) : device_(device), graph_(graph) {}
  bool wanted(const OpResult& result) const;

  Device& device_;
  const Graph& graph_;
  std::vector<OpResult> results_;   // of all operators; a word each
  std::vector<std::size_t> begin_;  // by operator, and one more: where its results begin
  std::int32_t *words_ = nullptr, *found_ = nullptr;  // of all variants; of the one in use
  Scope scope_ = Scope::kAll;
  std::vector<FiniteCheck> pending_;
  std::int64_t pending_floats_ = 0;
};

}  // namespace es::gpu::cuda
