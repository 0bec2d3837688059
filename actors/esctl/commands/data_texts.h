#pragma once
// esctl data remove: the encoded texts of a job file (actors/esctl/client/encoded_texts.h).
#include <CLI/CLI.hpp>

#include "actors/esctl/client/options.h"
#include "actors/esctl/commands/commands.h"

namespace es::actors::esctl {

// Adds the command to `esctl data`.
void add_data_remove(CLI::App& data, Shell& shell);

}  // namespace es::actors::esctl
