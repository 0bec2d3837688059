#pragma once
// Fits the optimizer that a model file brings to the parameters of a graph. Pure.
#include <cstdint>
#include <vector>

#include "gpu/graph/update_graphs.h"
#include "gpu/optim/captured.h"
#include "gpu/optim/parameter_groups.h"
#include "gpu/params/param_table.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

struct CapturedUpdates {
  CapturedOptimizer optimizer;
  std::vector<GroupRun> runs;  // group u + 1: the parameters of update u, without their padding
  std::vector<std::vector<StatePlace>> places;  // [update][state]

  // Whether an update has a program that needs whole parameters.
  bool any_whole() const;
};

// Returns the updates of the trained parameters, or nothing to do if the job's optimizer is one
// that the engine has. Error (usage): the kind of the optimizer and the model file do not fit each
// other; a trained parameter without an update; a job of more steps than there are numbers; states
// for which there is no room.
Result<CapturedUpdates> captured_updates(const ParamTable& table, const ModelUpdates* updates,
                                         const OptimizerSpec& spec, std::uint64_t total_steps);

}  // namespace es::gpu
