#include "gpu/engine/whole_updates.h"

#include <algorithm>
#include <utility>

#include "gpu/graph/fuse.h"
#include "gpu/params/pytorch_layout.h"
#include "proto/base/check.h"

namespace es::gpu {
namespace {

// REQUIRES: a parameter begins there.
const ParamInfo& param_at(const ParamTable& table, std::int64_t offset) {
  return *std::ranges::lower_bound(table.trained(), offset, {}, &ParamInfo::offset);
}

}  // namespace

WholeUpdates::WholeUpdates(const ModelUpdates& updates, const CapturedUpdates& captured,
                           const KernelTable& kernels, Parallel& parallel)
    : updates_(updates), places_(captured.places), programs_(updates.updates.size()) {
  for (std::size_t u = 0; u < programs_.size(); ++u) {
    const std::vector<UpdateGraph>& graphs = updates.updates[u].programs;
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      WholeProgram& program = programs_[u].emplace_back();
      if (captured.optimizer.groups[u].codes[i]) continue;
      program.executor = std::make_unique<Executor>(compile_forward(graphs[i].graph), kernels,
                                                    std::vector<Bucket>(), parallel);
      program.values =
          AlignedBuffer(graphs[i].graph.table.total_floats(), "the update of a whole parameter");
    }
  }
}

bool WholeUpdates::run(const Optimizer& optimizer, const UpdateStep& step,
                       const KernelTable& kernels, const ReducedGradient& gradient,
                       Replica& replica) {
  bool any = false;
  for (const GroupRun& run : optimizer.runs()) {
    const GroupStep& group = step.groups[run.group];
    if (run.group == 0 || group.idle || group.captured != nullptr) continue;
    const ParamInfo& param = param_at(gradient.table, run.begin);
    const float* const sum = gradient.of(param);
    if (sum == nullptr) continue;
    any = true;
    Arrays arrays{.gradient = sum, .params = replica.params.data() + run.begin};
    for (HeldArray& moment : replica.moments) arrays.moments.push_back(moment.data() + run.begin);
    update(run.group - 1, param, {replica.version, step.reductions, step.grad_scales[run.clip]},
           arrays);
    optimizer.average(step, kernels, param.count, arrays.params, arrays.moments.data());
  }
  return any;
}

void WholeUpdates::update(std::size_t update, const ParamInfo& param, const At& at,
                          const Arrays& arrays) {
  const std::size_t index = program_of(updates_.updates[update].phases, at.version);
  WholeProgram& program = programs_[update][index];
  const UpdateGraph& graph = updates_.updates[update].programs[index];
  const std::vector<ParamInfo>& inputs = graph.graph.table.params();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    read(graph.inputs[i], update, param, at, arrays, program.values.data() + inputs[i].offset);
  // The graph has one input, which nothing reads. Only a vendor's kernels could fail.
  const float nothing = 0.0F;
  ES_CHECK(program.executor->run_eval(program.values.data(), {.batch = {&nothing}}, nullptr).ok());
  const std::vector<TensorId>& outputs = program.executor->graph().outputs;
  from_pytorch(param, program.executor->values(outputs[0]).data(), arrays.params);
  for (std::size_t s = 0; s + 1 < outputs.size(); ++s) {
    state_from_pytorch(param, places_[update][s], program.executor->values(outputs[s + 1]).data(),
                       state(update, s, arrays));
  }
}

float* WholeUpdates::state(std::size_t update, std::size_t state, const Arrays& arrays) const {
  const StatePlace& place = places_[update][state];
  return arrays.moments[place.array] + place.offset;
}

void WholeUpdates::read(const UpdateInput& input, std::size_t update, const ParamInfo& param,
                        const At& at, const Arrays& arrays, float* to) const {
  switch (input.kind) {
    case UpdateInput::Kind::kParameter:
      return to_pytorch(param, arrays.params, to);
    case UpdateInput::Kind::kGradient:
      to_pytorch(param, arrays.gradient, to);
      for (std::int64_t i = 0; i < param.count; ++i) to[i] *= at.grad_scale;
      return;
    case UpdateInput::Kind::kNumber:
      *to = updates_.numbers[input.index].at(at.version, at.reductions);
      return;
    case UpdateInput::Kind::kState:
      state_to_pytorch(param, places_[update][input.index], state(update, input.index, arrays), to);
  }
}

}  // namespace es::gpu
