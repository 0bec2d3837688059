#pragma once
// All that decides why a job waits or is slow, as the head says it (actors/views/explain.h).
#include "actors/esctl/client/client.h"
#include "actors/views/explain.h"

namespace es::actors::esctl {

// Errors: those of Client, and the refusals of the head.
Result<ClusterFacts> cluster_facts(Client& client, const JobId& job);

}  // namespace es::actors::esctl
