#pragma once
// The updates of a captured optimizer that need whole parameters, such as the matrix products of
// Muon and the row sums of Adafactor. They run on the CPU with the canonical kernels, one parameter
// after the other, so the bits are those of any other worker.
//
// Threads: one at a time; an operator may use the helper threads of `parallel`. Memory: the
// constructor allocates it.
#include <memory>
#include <vector>

#include "gpu/base/aligned_buffer.h"
#include "gpu/base/parallel.h"
#include "gpu/engine/captured_updates.h"
#include "gpu/graph/executor.h"
#include "gpu/optim/update.h"

namespace es::gpu {

class WholeUpdates {
 public:
  // `updates`, `kernels` and `parallel` outlive the object.
  WholeUpdates(const ModelUpdates& updates, const CapturedUpdates& captured,
               const KernelTable& kernels, Parallel& parallel);

  // Updates the parameters whose groups have no element-wise code in this step and whose sums are
  // here, with their moments and averages. Returns whether there were any; their new values may be
  // not finite. REQUIRES: the gradient is finite.
  bool run(const Optimizer& optimizer, const UpdateStep& step, const KernelTable& kernels,
           const ReducedGradient& gradient, Replica& replica);

 private:
  struct WholeProgram {
    std::unique_ptr<Executor> executor;  // nullptr: the program is element-wise
    AlignedBuffer values;                // of the parameters of its graph
  };
  // Those of one parameter, each from its first element on.
  struct Arrays {
    const float* gradient = nullptr;  // the sum over all ESTs
    float* params = nullptr;
    std::vector<float*> moments = {};
  };
  // What an update reads beside its arrays.
  struct At {
    Version version = 0;
    std::uint32_t reductions = 0;
    float grad_scale = 1.0F;
  };
  void update(std::size_t update, const ParamInfo& param, const At& at, const Arrays& arrays);
  void read(const UpdateInput& input, std::size_t update, const ParamInfo& param, const At& at,
            const Arrays& arrays, float* to) const;
  float* state(std::size_t update, std::size_t state, const Arrays& arrays) const;

  const ModelUpdates& updates_;
  std::vector<std::vector<StatePlace>> places_;      // [update][state]
  std::vector<std::vector<WholeProgram>> programs_;  // [update][program]
};

}  // namespace es::gpu
