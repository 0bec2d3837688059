#pragma once
// esctl: the command line of EasyScale.
#include <string>
#include <vector>

#include "actors/views/console.h"

namespace es::actors::esctl {

// Runs the command line `arguments` (without the program's name) and returns the exit code: 0 ok, 1
// failure, 2 usage, 3 not found, 4 refused, 128 + N if signal N stopped it.
int run_esctl(std::vector<std::string> arguments, Console& console);

}  // namespace es::actors::esctl
