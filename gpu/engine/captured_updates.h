#pragma once
// Fits the optimizer that a model file brings to the parameters of a graph. Pure.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpu/base/held_array.h"
#include "gpu/graph/update_graphs.h"
#include "gpu/optim/captured.h"
#include "gpu/optim/parameter_groups.h"
#include "gpu/params/param_table.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

struct CapturedUpdates {
  CapturedOptimizer optimizer;
  // Group u + 1: the parameters of update u, without their padding, which is group 0.
  std::vector<GroupRun> runs;
  std::vector<std::vector<StatePlace>> places;  // [update][state]

  // Whether an update has a program that needs whole parameters.
  bool any_whole() const;
  // Makes the machine code of all updates, so that no step has to wait for it.
  void make_machine_code(CpuClass cpu_class) const;
};

// Returns whether all programs of the update are element-wise. Otherwise some need whole
// parameters.
bool is_element_wise(const ParameterUpdate& update);

// Converts a state between the arrays of the replica, where `ours` is the beginning of the state,
// and PyTorch. A state that is as large as its parameter has the parameter's order of elements, so
// that element-wise programs and programs of whole parameters can use it in turn.
void state_to_pytorch(const ParamInfo& param, const StatePlace& place, const float* ours,
                      float* theirs);
void state_from_pytorch(const ParamInfo& param, const StatePlace& place, const float* theirs,
                        float* ours);

// One array that the optimizer keeps for one parameter.
struct ParamState {
  ParamId param = kNoParam;
  std::string name;                 // as torch.optim names it, for example "exp_avg"
  std::vector<std::int64_t> shape;  // in PyTorch
  StatePlace place;

  // As to_pytorch() and from_pytorch() of pytorch_layout.h; `moments` are the replica's arrays.
  std::vector<float> values(const ParamTable& table, std::span<const HeldArray> moments) const;
  void set(const ParamTable& table, const float* values, std::span<HeldArray> moments) const;
};

// Replaces the parameters that have a state kEvaluatedState by it. `params` are all parameters in
// the flat layout, and `moments` the replica's arrays. Returns whether there are any.
bool use_evaluated(const ParamTable& table, std::span<const ParamState> states,
                   std::span<const HeldArray> moments, float* params);

// Returns the states of all trained parameters, in the order of the table.
std::vector<ParamState> param_states(const ParamTable& table, const ModelUpdates& updates,
                                     const CapturedUpdates& captured);

// Returns the updates of the trained parameters, or nothing to do if the job's optimizer is one
// that the engine has. Error (usage): the kind of the optimizer, or a schedule by evaluations, and
// the model file do not fit each other; a trained parameter without an update; a job of more steps
// than there are numbers; states for which there is no room.
Result<CapturedUpdates> captured_updates(const ParamTable& table, const ModelUpdates* updates,
                                         const OptimizerSpec& spec, const ScheduleSpec& schedule,
                                         std::uint64_t total_steps);

}  // namespace es::gpu
