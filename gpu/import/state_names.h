#pragma once
// What the state dict of a user's model contains beside parameters and statistics.
#include "gpu/params/param_table.h"
#include "proto/base/model_program.h"

namespace es::gpu {

// Adds the other names of tied parameters, and the buffers. REQUIRES: the table has the parameters
// of the program.
void add_state_names(const ModelProgram& program, ParamTable& table);

}  // namespace es::gpu
