#pragma once
// Checks the captured optimizer of a program that comes from outside.
#include <string_view>

#include "proto/base/model_program.h"
#include "proto/base/result.h"

namespace es::gpu {

// The names of the parameters of an update's program (ModelUpdate).
constexpr std::string_view kUpdateParameter = "parameter", kUpdateGradient = "gradient";
constexpr std::string_view kUpdateState = "state.", kUpdateNumber = "number.";

// Returns which of ModelProgram::numbers the parameter of an update's program is. REQUIRES: its
// name begins with kUpdateNumber, and check_updates() accepts the program.
std::size_t number_of(const ModelParameter& parameter);

// Error (usage): the first violation of what ModelUpdate and ModelNumbers say, with the path of the
// field. REQUIRES: the lists of the program are within their limits.
Status check_updates(const ModelProgram& program);

// Returns the program of an update as a model. Every model has an input, which nothing reads here,
// and a loss, which is the constant 0.
ModelProgram as_model(ModelProgram update);

}  // namespace es::gpu
