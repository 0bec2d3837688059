#pragma once
// The groups of agents of a cluster: which pods are made and which end. How many agents a group has
// is decided by an AgentPlanner for each group (actors/agents). Pure.
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "actors/agents/core/agent_planner.h"
#include "actors/kubernetes/core/head_facts.h"
#include "actors/kubernetes/core/names.h"

namespace es::actors::kubernetes {

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

// Divides what claims have, and what the jobs could use, among the groups, the first one first: a
// claim, and a job that names device types or a number of devices, counts for groups of its type
// only. `jobs`: of this cluster.
std::vector<std::map<std::string, std::uint32_t>> wanted_of_groups(
    const std::vector<AgentGroup>& groups, const std::vector<const Json*>& jobs,
    const HeadFacts& head);

struct EndOfAgent {
  std::string pod, why;
};
struct AgentOrdersOfPods {
  std::vector<EndOfAgent> end;
  std::vector<Json> make;  // pods
};

class AgentGroups {
 public:
  // `jobs`: of this cluster. `pods`: all agents of the cluster. `now` never goes back. REQUIRES:
  // the orders of the last call were carried out, or have failed.
  AgentOrdersOfPods decide(const Json& cluster, const std::vector<const Json*>& jobs,
                           const std::vector<const Json*>& pods, const HeadFacts& head,
                           std::chrono::seconds now);

 private:
  struct Planned {
    explicit Planned(AgentLimits of) : limits(of), planner(of) {}
    AgentLimits limits;
    AgentPlanner planner;
  };
  AgentPlanner& planner_of(const AgentGroup& group);

  std::map<std::string, Planned> planners_;  // by group
};

}  // namespace es::actors::kubernetes
