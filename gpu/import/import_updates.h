#pragma once
// The import of the optimizer that a model file brings.
#include "gpu/graph/update_graphs.h"
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// Returns the programs of all updates as graphs. REQUIRES: check_program() accepts the program.
// Error (usage): nodes that the engine cannot execute, with the number of the update.
Result<ModelUpdates> import_updates(const ModelProgram& program);

}  // namespace es::gpu
