#pragma once
// The objects of Kubernetes that an EasyScaleCluster consists of. Pure.
//
//   CLUSTER-keys        Secret with the keys of the cluster; each pod sees only those that it needs
//   CLUSTER-head        Service without an address of its own, and StatefulSet of one pod, the head
//   CLUSTER-GROUP-N     pod of an agent
//
// Agents are plain pods, so the controller alone says which of them end, and a pod that stays is
// never changed.
#include <string>
#include <vector>

#include "actors/agents/core/agent_planner.h"
#include "actors/kubernetes/core/head_facts.h"
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

// One group of agents: what its planner is given.
struct AgentGroup {
  std::string name;
  std::string device_type;
  std::uint32_t devices = 1;  // of one agent
  AgentLimits limits;
};
std::vector<AgentGroup> groups_of(const Json& cluster);

// Whether agents hold saved states of jobs on disks of their own, which end with them: the cluster
// has no claim for checkpoints, and a job is not over. No agent counts as idle then.
bool agents_hold_states(const Json& cluster, const HeadFacts& head);

// `pods`: all agents of the cluster. `keep`: none of them counts as idle.
std::vector<AgentSeen> agents_seen(const std::vector<const Json*>& pods, const std::string& group,
                                   const HeadFacts& head, bool keep);
// The pods that have ended by themselves and are of no use any more.
std::vector<std::string> pods_over(const std::vector<const Json*>& pods);

// Divides what the jobs could use among the groups, the first one first: a job that names device
// types or a number of devices counts for groups of its type only. `jobs`: of this cluster.
std::vector<std::map<std::string, std::uint32_t>> wanted_of_groups(
    const std::vector<AgentGroup>& groups, const std::vector<const Json*>& jobs,
    const HeadFacts& head);

Json cluster_status(const Json& cluster, const HeadFacts* head, const std::string& trouble,
                    const std::string& now);

}  // namespace es::actors::kubernetes
