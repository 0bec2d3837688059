#pragma once
// The connection of the controller on Kubernetes to its head (actors/kubernetes/shell/head_link.h),
// by the client of the command line.
#include <memory>
#include <string>

#include "actors/esctl/client/client.h"
#include "actors/kubernetes/shell/head_link.h"

namespace es::actors::esctl {

// Errors: those of Client::connect.
Result<std::unique_ptr<kubernetes::HeadLink>> connect_head_link(const std::string& endpoint,
                                                                const ClusterKeys& keys,
                                                                const Interrupt& interrupt);

}  // namespace es::actors::esctl
