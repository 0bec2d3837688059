#pragma once
// The files of configs/slurm, which batch_scripts.py puts into a source file.
#include <string_view>

namespace es::actors::esctl {

extern const std::string_view kHeadScript;
extern const std::string_view kAgentScript;

}  // namespace es::actors::esctl
