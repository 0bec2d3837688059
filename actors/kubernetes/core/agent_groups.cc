#include "actors/kubernetes/core/agent_groups.h"

#include <algorithm>
#include <charconv>

#include "actors/kubernetes/core/cluster_objects.h"
#include "actors/kubernetes/core/job_steps.h"

namespace es::actors::kubernetes {
namespace {

std::pair<std::string, std::uint32_t> type_and_count(const std::string& devices) {
  const std::size_t colon = devices.rfind(':');
  std::uint32_t count = 1;
  if (colon != std::string::npos)
    std::from_chars(devices.data() + colon + 1, devices.data() + devices.size(), count);
  return {devices.substr(0, colon), std::max(count, 1U)};
}

AgentState state_of(const Json& pod, const HeadNode* node) {
  const std::string phase = text_at(pod, {"status", "phase"});
  if (is_being_deleted(pod) || phase == "Succeeded" || phase == "Failed" ||
      (node != nullptr && node->draining))
    return AgentState::kEnding;
  return text_at(pod, {"spec", "nodeName"}).empty() ? AgentState::kQueued : AgentState::kRunning;
}

// Whether the devices of a group are of use to a job.
bool suits(const Json& job, const AgentGroup& group, const std::string& first_type) {
  const std::string demand = demand_of(job, first_type);
  if (demand != kAuto) return demand.substr(0, demand.rfind(':')) == group.device_type;
  const Json types = value_at(job, {"spec", "resources", "deviceTypes"}, Json::array());
  return types.empty() ||
         std::find(types.begin(), types.end(), Json(group.device_type)) != types.end();
}

// The devices that a job could use; 0 if it has an end, or none are to be had for it.
std::uint32_t devices_wanted(const Json& job, const HeadFacts& head) {
  if (is_being_deleted(job) || is_suspended(job)) return 0;
  const auto known = head.jobs.find(text_at(job, {"status", "job"}));
  std::uint32_t wanted = 0;
  if (known != head.jobs.end() && !is_over(known->second))
    wanted = known->second.devices_wanted;
  else if (known == head.jobs.end() && text_at(job, {"status", "phase"}) == kWaiting)
    wanted = value_at(job, {"spec", "maxP"}, 1U);
  else
    return 0;
  return value_at(job, {"spec", "devices"}, wanted);
}

// What claims have of a group.
std::uint32_t claimed_of(const std::map<std::string, std::uint32_t>& wanted,
                         const HeadFacts& head) {
  std::uint32_t claimed = 0;
  for (const auto& [name, claim] : head.claims) {
    const auto found = wanted.find(claim_key(name));
    if (found != wanted.end()) claimed += found->second;
  }
  return claimed;
}

}  // namespace

std::vector<AgentGroup> groups_of(const Json& cluster) {
  const std::chrono::seconds idle(value_at(cluster, {"spec", "idleSeconds"}, 300));
  std::vector<AgentGroup> groups;
  for (const Json& group : value_at(cluster, {"spec", "agents"}, Json::array())) {
    const auto [type, count] = type_and_count(text_at(group, {"devices"}));
    groups.push_back({.name = text_at(group, {"name"}),
                      .device_type = type,
                      .devices = count,
                      .limits = {.min = value_at(group, {"min"}, 0U),
                                 .max = std::max(1U, value_at(group, {"max"}, 1U)),
                                 .idle = idle}});
  }
  return groups;
}

bool agents_hold_states(const Json& cluster, const HeadFacts& head) {
  return text_at(cluster, {"spec", "checkpointClaim"}).empty() &&
         std::any_of(head.jobs.begin(), head.jobs.end(),
                     [](const auto& job) { return !is_over(job.second); });
}

std::vector<AgentSeen> agents_seen(const std::vector<const Json*>& pods, const std::string& group,
                                   const HeadFacts& head, bool keep) {
  std::vector<AgentSeen> agents;
  for (const Json* pod : pods) {
    if (text_at((*pod)["metadata"], {"labels", kGroupLabel}) != group) continue;
    AgentSeen agent{.job = kubernetes::name_of(*pod)};
    const std::size_t dash = agent.job.rfind('-');
    std::from_chars(agent.job.data() + dash + 1, agent.job.data() + agent.job.size(), agent.index);
    const auto node = head.nodes.find(agent.job);
    agent.state = state_of(*pod, node == head.nodes.end() ? nullptr : &node->second);
    if (node != head.nodes.end()) {
      agent.devices = node->second.devices;
      agent.devices_in_use = std::max(node->second.devices_in_use, keep ? 1U : 0U);
    }
    agents.push_back(std::move(agent));
  }
  return agents;
}

std::vector<std::string> pods_over(const std::vector<const Json*>& pods) {
  std::vector<std::string> over;
  for (const Json* pod : pods) {
    const std::string phase = text_at(*pod, {"status", "phase"});
    if (!is_being_deleted(*pod) && (phase == "Succeeded" || phase == "Failed"))
      over.push_back(kubernetes::name_of(*pod));
  }
  return over;
}

std::vector<std::map<std::string, std::uint32_t>> wanted_of_groups(
    const std::vector<AgentGroup>& groups, const std::vector<const Json*>& jobs,
    const HeadFacts& head) {
  std::vector<std::map<std::string, std::uint32_t>> wanted(groups.size());
  if (groups.empty()) return wanted;
  std::vector<std::uint64_t> room;
  for (const AgentGroup& group : groups)
    room.push_back(std::uint64_t{group.devices} * group.limits.max);
  const auto divide = [&](const std::string& key, std::uint64_t left, auto&& suits_group) {
    for (std::size_t at = 0; at < groups.size() && left > 0; ++at) {
      if (!suits_group(groups[at])) continue;
      const auto taken = static_cast<std::uint32_t>(std::min(left, room[at]));
      if (taken > 0) wanted[at][key] = taken;
      room[at] -= taken;
      left -= taken;
    }
  };
  for (const auto& [name, claim] : head.claims)
    divide(claim_key(name), claim.devices,
           [&](const AgentGroup& group) { return group.device_type == claim.type; });
  for (const Json* job : jobs)
    divide(name_of(*job), devices_wanted(*job, head),
           [&](const AgentGroup& group) { return suits(*job, group, groups[0].device_type); });
  return wanted;
}

AgentOrdersOfPods AgentGroups::decide(const Json& cluster, const std::vector<const Json*>& jobs,
                                      const std::vector<const Json*>& pods, const HeadFacts& head,
                                      std::chrono::seconds now) {
  const auto groups = groups_of(cluster);
  const auto wanted = wanted_of_groups(groups, jobs, head);
  const bool keep = agents_hold_states(cluster, head);
  const Json specs = value_at(cluster, {"spec", "agents"}, Json::array());
  AgentOrdersOfPods orders;
  for (const std::string& pod : pods_over(pods)) orders.end.push_back({pod, "it is over"});
  for (std::size_t at = 0; at < groups.size(); ++at) {
    const AgentOrders of_group =
        planner_of(groups[at])
            .decide({.agents = agents_seen(pods, groups[at].name, head, keep),
                     .devices_wanted = wanted[at],
                     .claimed = claimed_of(wanted[at], head)},
                    now);
    for (const std::string& pod : of_group.cancel)
      orders.end.push_back({pod, "no job needs it, and it has no node"});
    for (const std::string& pod : of_group.give_back) orders.end.push_back({pod, "it is idle"});
    for (const std::uint32_t index : of_group.ask)
      orders.make.push_back(agent_pod(cluster, specs[at], index));
  }
  return orders;
}

// A group with other limits is planned anew.
AgentPlanner& AgentGroups::planner_of(const AgentGroup& group) {
  const auto found = planners_.find(group.name);
  if (found != planners_.end() && found->second.limits != group.limits) planners_.erase(found);
  return planners_.try_emplace(group.name, group.limits).first->second.planner;
}

}  // namespace es::actors::kubernetes
