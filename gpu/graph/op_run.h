#pragma once
// One operator that is being executed: short names for its addresses and shapes, and the division
// of its work among threads.
#include <algorithm>
#include <cstdint>

#include "gpu/base/parallel.h"
#include "gpu/graph/graph.h"

namespace es::gpu {

// In evaluation mode batch norm uses the running statistics, and there is no dropout. Other random
// numbers are drawn in both modes.
enum class RunMode { kTrain, kEvaluate };

// The addresses for one run of a program. All memory belongs to the caller.
struct RunBuffers {
  float* const* tensors = nullptr;  // [tensor], with inputs and constants
  const float* params = nullptr;    // flat layout
  float* grads = nullptr;           // flat layout; backward operators only
  const float* stats = nullptr;     // the running statistics that are read
  float* next_stats = nullptr;      // those that training writes; never the same memory as `stats`
  DropoutKey key;                   // the key of this step's random numbers
  float* workspace = nullptr;       // op_workspace_floats() floats for the same number of threads
  bool clear_padding = true;        // write the padding of gradients; false: it is +0 already
  Parallel* parallel = nullptr;     // nullptr: only the calling thread
};

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

// An operator and the shapes of its tensors.
struct OpShapes {
  const TensorShape& in_shape(std::size_t i = 0) const { return graph.shape(op.in[i]); }
  const TensorShape& out_shape(std::size_t i = 0) const { return graph.shape(op.out[i]); }
  // Number of elements of the weight.
  std::int64_t weight_count() const {
    if (op.weight != kNoParam) return graph.table[op.weight].count;
    const WeightTensors& t = op.tensors;
    return (t.weight >= 0 ? in_shape(static_cast<std::size_t>(t.weight))
                          : out_shape(static_cast<std::size_t>(t.weight_grad)))
        .count();
  }

  const Graph& graph;
  const Op& op;
};

class OpRun : public OpShapes {
 public:
  OpRun(const Graph& graph, const Op& op, const RunBuffers& buffers, RunMode mode = RunMode::kTrain)
      : OpShapes{graph, op}, buffers(buffers), mode(mode) {}

  bool stored_bf16(TensorId t) const { return graph.tensors[static_cast<std::size_t>(t)].bf16; }
  float* in(std::size_t i) const { return address(op.in[i]); }
  float* out(std::size_t i) const { return address(op.out[i]); }
  const std::int32_t* ids(std::size_t i) const {
    return reinterpret_cast<const std::int32_t*>(in(i));
  }
  std::uint8_t* bytes(TensorId t) const { return reinterpret_cast<std::uint8_t*>(address(t)); }

  const float* param(ParamId id) const {
    return id == kNoParam ? nullptr : buffers.params + graph.table[id].offset;
  }
  // The weight and the bias: parameters, or tensors (Op::tensors); nullptr: there is none.
  const float* weight() const { return parameter_or_tensor(op.weight, op.tensors.weight); }
  const float* bias() const { return parameter_or_tensor(op.bias, op.tensors.bias); }
  // Return where the gradients go. The padding of a parameter's gradient is set to +0
  // (RunBuffers::clear_padding).
  float* weight_grad() const { return gradient(op.weight, op.tensors.weight_grad); }
  float* bias_grad() const { return gradient(op.bias, op.tensors.bias_grad); }

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

  const RunBuffers& buffers;
  RunMode mode;

 private:
  const float* parameter_or_tensor(ParamId id, std::int32_t position) const {
    return position >= 0 ? in(static_cast<std::size_t>(position)) : param(id);
  }
  float* gradient(ParamId id, std::int32_t position) const {
    return position >= 0 ? out(static_cast<std::size_t>(position)) : grad(id);
  }
  float* address(TensorId t) const { return buffers.tensors[static_cast<std::size_t>(t)]; }
};

}  // namespace es::gpu
