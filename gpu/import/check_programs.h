#pragma once
// Checks the further programs of a model (ModelProgram::programs).
#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// REQUIRES: the lists of the model itself were checked. Error (usage): the first violation, as
// check_program(): a program that a model could not have, or a parameter, statistic, state or input
// that the model itself does not have so.
Status check_programs(const ModelProgram& model);

}  // namespace es::gpu
