#pragma once
// The objects of Kubernetes that an EasyScaleCluster consists of. Pure.
//
//   CLUSTER-keys        Secret with the keys of the cluster; each pod sees only those that it needs
//   CLUSTER-head        Service without an address of its own, and StatefulSet of one pod, the head
//   CLUSTER-GROUP-N     pod of an agent
//
// Agents are plain pods, so the controller alone says which of them end, and a pod that stays is
// never changed.
#include <cstdint>
#include <string>

#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

std::string keys_name(const std::string& cluster);
// tcp://CLUSTER-head.NAMESPACE.svc:PORT
std::string head_endpoint(const Json& cluster);

Json head_service(const Json& cluster);
Json head_set(const Json& cluster);
// `group`: an element of spec.agents.
Json agent_pod(const Json& cluster, const Json& group, std::uint32_t index);

// A key in the Secret for a path in a key directory: "/" is written as ".".
std::string secret_key(const std::string& path);

}  // namespace es::actors::kubernetes
