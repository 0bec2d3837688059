#pragma once
// The output of `models` about a model file. Pure functions.
#include <string>

#include "proto/base/digest.h"
#include "proto/base/model_program.h"

namespace es::actors::esctl {

// Inputs, outputs, the loss, the number of parameters, the kinds of nodes by count, and the digest.
std::string program_text(const ModelProgram& program, const Digest& digest);

// The same facts about a file that was written, for `models pack`.
std::string packed_text(const std::string& file, const Digest& digest);
std::string packed_json(const std::string& file, const Digest& digest);

}  // namespace es::actors::esctl
