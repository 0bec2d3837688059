#pragma once
// One operator that is being executed: short names for its addresses and shapes, and the division
// of its work among threads. gpu/graph and gpu/cuda use it.
#include <algorithm>
#include <cstdint>

#include "gpu/graph/op_kernels.h"

namespace es::gpu {

// A smaller piece of element-wise work (in floats) is not worth another thread.
constexpr std::int64_t kGrainFloats = 8192;

// Divides [0, count) into at most `threads` parts whose inner bounds are multiples of `grain`.
struct Cut {
  Cut(std::int64_t count, std::int64_t grain, int threads)
      : count(count),
        grain(grain),
        parts(std::clamp<std::int64_t>((count + grain - 1) / grain, 1, threads)) {}
  std::int64_t begin(std::int64_t part) const {
    const std::int64_t grains = (count + grain - 1) / grain;
    return std::min(count, grains * part / parts * grain);
  }
  std::int64_t end(std::int64_t part) const { return begin(part + 1); }

  std::int64_t count, grain, parts;
};

// Divides rows of `floats` floats each, so that a part has about kGrainFloats floats or more.
inline Cut cut_rows(std::int64_t rows, std::int64_t floats, int threads) {
  return {rows, std::max<std::int64_t>(1, kGrainFloats / std::max<std::int64_t>(1, floats)),
          threads};
}

class OpRun {
 public:
  OpRun(const Graph& graph, const Op& op, const RunBuffers& buffers, RunMode mode = RunMode::kTrain)
      : graph(graph), op(op), buffers(buffers), mode(mode) {}

  float* in(std::size_t i) const { return address(op.in[i]); }
  float* out(std::size_t i) const { return address(op.out[i]); }
  const std::int32_t* ids(std::size_t i) const {
    return reinterpret_cast<const std::int32_t*>(in(i));
  }
  std::uint8_t* bytes(TensorId t) const { return reinterpret_cast<std::uint8_t*>(address(t)); }
  const TensorShape& in_shape(std::size_t i) const { return graph.shape(op.in[i]); }
  const TensorShape& out_shape(std::size_t i) const { return graph.shape(op.out[i]); }

  const float* param(ParamId id) const {
    return id == kNoParam ? nullptr : buffers.params + graph.table[id].offset;
  }
  // Returns where the gradient goes, and sets its padding to +0 (RunBuffers::clear_padding).
  float* grad(ParamId id) const {
    const ParamInfo& info = graph.table[id];
    if (!buffers.clear_padding) return buffers.grads + info.offset;
    std::fill(buffers.grads + info.offset + info.count, buffers.grads + graph.table.padded_end(id),
              0.0F);
    return buffers.grads + info.offset;
  }

  int threads() const { return buffers.parallel == nullptr ? 1 : buffers.parallel->threads(); }
  // Calls task(part) for every part.
  template <class Task>
  void parts(std::int64_t count, Task&& task) const {
    if (count == 1) {
      task(0);
    } else {
      buffers.parallel->run(static_cast<int>(count), task);
    }
  }
  // Calls task(begin, end) for every part of the cut.
  template <class Task>
  void ranges(const Cut& cut, Task&& task) const {
    parts(cut.parts, [&](int part) { task(cut.begin(part), cut.end(part)); });
  }
  // Calls task(begin, end) for ranges of `count` items of work on `floats` floats each.
  // gpu/canonical/phases.h divides its work with this function.
  template <class Task>
  void share(std::int64_t count, std::int64_t floats, Task&& task) const {
    ranges(cut_rows(count, floats, threads()), task);
  }

  const Graph& graph;
  const Op& op;
  const RunBuffers& buffers;
  RunMode mode;

 private:
  float* address(TensorId t) const { return buffers.tensors[static_cast<std::size_t>(t)]; }
};

// --- Operators by topic. Each function returns false for kinds that it does not run.
bool run_dense(const KernelTable& kernels, const OpRun& run);  // op_dense.cc
bool run_pool(const KernelTable& kernels, const OpRun& run);   // op_pool.cc
bool run_loss(const KernelTable& kernels, const OpRun& run);   // op_loss.cc
// Floats of scratch memory of a convolution, product or attention; 0 for other operators.
std::size_t dense_workspace_floats(const KernelTable& kernels, const Graph& graph, const Op& op,
                                   int threads);

}  // namespace es::gpu
