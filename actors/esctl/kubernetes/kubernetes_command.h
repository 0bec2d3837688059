#pragma once
// esctl kubernetes: the controller of a cluster on Kubernetes, and its custom resources.
#include "actors/esctl/commands/commands.h"

namespace es::actors::esctl {

void add_kubernetes_command(CLI::App& app, Shell& shell);

}  // namespace es::actors::esctl
