// States: what an EST keeps from one step to the next beside parameters and running statistics.
//
// Both operators copy. A step reads the states of its version, and writes those of the next version
// to other memory, so a step that is repeated finds the same content. An evaluation writes nothing:
// what it reads of a state is the content with which it begins.
#include "gpu/graph/gradients.h"
#include "gpu/graph/ops/operator.h"

namespace es::gpu {
namespace {

OutputTensors set_state_outputs(const Graph& graph, Op& op) {
  const Tensor& x = graph.tensors[static_cast<std::size_t>(op.in[0])];
  return std::vector<Tensor>{{x.shape, x.type}};
}

template <class On>
void read_state(const On& on, const OpRun& run) {
  copy_words(on, run, run.out_shape().count(), run.buffers.stats + run.op.state, run.out(0));
}

template <class On>
void set_state(const On& on, const OpRun& run) {
  if (run.mode == RunMode::kEvaluate) return read_state(on, run);
  const std::int64_t count = run.in_shape().count();
  copy_words(on, run, count, run.in(0), run.buffers.next_stats + run.op.state);
  copy_words(on, run, count, run.in(0), run.out(0));
}

constexpr Operator kStateOperators[] = {
    {.kind = OpKind::kState,
     .name = "state",
     .kernels = "move",
     .stored = Stored::kF32,
     .run = [](const auto& on, const OpRun& run) { read_state(on, run); }},
    {.kind = OpKind::kSetState,
     .name = "set state",
     .kernels = "move",
     .outputs = set_state_outputs,
     .stored = Stored::kF32,
     .gradient = [](Gradients& g,
                    const Op& op) { g.contribute(op.name, op.in[0], g.of(op.out[0])); },
     .in_place = [](const Op& op) { return op.in; },
     .run = [](const auto& on, const OpRun& run) { set_state(on, run); }},
};

}  // namespace

std::span<const Operator> state_operators() {
  return kStateOperators;
}

}  // namespace es::gpu
