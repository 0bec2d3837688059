#include "actors/agents/core/agent_planner.h"

#include <algorithm>

namespace es::actors {
namespace {

using std::chrono::seconds;

constexpr seconds kFirstPause{5};
constexpr seconds kPauseMax{300};

std::uint64_t sum_of(const std::map<std::string, std::uint32_t>& wanted) {
  std::uint64_t sum = 0;
  for (const auto& [job, devices] : wanted) sum += devices;
  return sum;
}

std::vector<std::uint32_t> free_indices(const AgentsSeen& seen, std::size_t count) {
  std::set<std::uint32_t> used;
  for (const AgentSeen& agent : seen.agents) used.insert(agent.index);
  std::vector<std::uint32_t> free;
  for (std::uint32_t index = 0; free.size() < count; ++index)
    if (!used.contains(index)) free.push_back(index);
  return free;
}

AgentsSeen with_claims_in_use(AgentsSeen seen) {
  for (AgentSeen& agent : seen.agents) {
    const std::uint32_t free = agent.devices - std::min(agent.devices, agent.devices_in_use);
    const std::uint32_t taken = std::min(free, seen.claimed);
    agent.devices_in_use += taken;
    seen.claimed -= taken;
  }
  return seen;
}

}  // namespace

std::optional<seconds> AgentPlanner::held_back_until() const {
  if (failed_starts_ == 0) return {};
  return ask_again_at_;
}

AgentOrders AgentPlanner::decide(const AgentsSeen& reported, seconds now) {
  const AgentsSeen seen = with_claims_in_use(reported);
  note_ends(seen, now);
  remember(seen, now);
  const std::uint32_t wanted = wanted_agents(seen);
  AgentOrders orders;
  std::vector<const AgentSeen*> queued, running;
  for (const AgentSeen& agent : seen.agents) {
    if (agent.state == AgentState::kEnding || memory_[agent.job].given_back) continue;
    if (agent.state == AgentState::kQueued)
      queued.push_back(&agent);
    else if (agent.node_drains)
      orders.give_back.push_back(agent.job);
    else
      running.push_back(&agent);
  }
  const std::size_t on_draining_nodes = orders.give_back.size();
  std::size_t present = queued.size() + running.size();
  if (present <= wanted && others_come(seen)) restart_idle_clocks(now);
  // What has not started yet costs nothing to give up, so it goes first.
  for (; present > wanted && !queued.empty(); --present, queued.pop_back())
    orders.cancel.push_back(queued.back()->job);
  for (auto agent = running.rbegin(); agent != running.rend() && present > limits_.min; ++agent) {
    const auto& idle_since = memory_[(*agent)->job].idle_since;
    if (!idle_since || now - *idle_since < limits_.idle) continue;
    orders.give_back.push_back((*agent)->job);
    --present;
  }
  for (const auto* list : {&orders.cancel, &orders.give_back})
    for (const std::string& job : *list) memory_[job].given_back = true;
  if (orders.give_back.size() > on_draining_nodes && present < wanted)
    enough_ = {static_cast<std::uint32_t>(present), seen.devices_wanted};
  else if (present < wanted && now >= ask_again_at_)
    orders.ask = free_indices(seen, wanted - present);
  return orders;
}

// Whether agents that were asked for have not joined yet.
bool AgentPlanner::others_come(const AgentsSeen& seen) const {
  return std::ranges::any_of(seen.agents, [this](const AgentSeen& agent) {
    return agent.state != AgentState::kEnding && agent.devices == 0 &&
           !memory_.at(agent.job).given_back;
  });
}

// Jobs need all of them together, so the agents that came first are not idle while they wait.
void AgentPlanner::restart_idle_clocks(seconds now) {
  for (auto& [job, agent] : memory_)
    if (agent.idle_since) agent.idle_since = now;
}

// An agent that ran and has ended before it joined has failed. One that was given back has not.
void AgentPlanner::note_ends(const AgentsSeen& seen, seconds now) {
  std::set<std::string> listed;
  for (const AgentSeen& agent : seen.agents) listed.insert(agent.job);
  bool failed = false;
  std::erase_if(memory_, [&](const auto& entry) {
    const auto& [job, agent] = entry;
    if (listed.contains(job)) return false;
    failed = failed || (agent.ran && !agent.joined && !agent.given_back);
    return true;
  });
  if (!failed) return;
  const std::uint32_t doublings = std::min(failed_starts_++, 6U);
  ask_again_at_ = now + std::min(kFirstPause * (1 << doublings), kPauseMax);
}

void AgentPlanner::remember(const AgentsSeen& seen, seconds now) {
  for (const AgentSeen& agent : seen.agents) {
    Memory& memory = memory_[agent.job];
    if (agent.state == AgentState::kRunning) memory.ran = true;
    if (agent.devices == 0 || agent.state != AgentState::kRunning) {
      memory.idle_since.reset();
      continue;
    }
    if (!memory.joined) failed_starts_ = 0;
    memory.joined = true;
    devices_per_agent_ = agent.devices;
    if (agent.devices_in_use > 0)
      memory.idle_since.reset();
    else if (!memory.idle_since)
      memory.idle_since = now;
  }
}

bool AgentPlanner::wishes_more(const std::map<std::string, std::uint32_t>& wanted) const {
  return std::ranges::any_of(wanted, [&](const auto& job) {
    const auto before = enough_->devices_wanted.find(job.first);
    return before == enough_->devices_wanted.end() || job.second > before->second;
  });
}

std::uint32_t AgentPlanner::wanted_agents(const AgentsSeen& seen) {
  if (enough_ && wishes_more(seen.devices_wanted)) enough_.reset();
  const std::uint64_t devices = sum_of(seen.devices_wanted);
  const std::uint64_t agents = (devices + devices_per_agent_ - 1) / devices_per_agent_;
  const std::uint64_t most = enough_ ? std::max(enough_->agents, limits_.min) : limits_.max;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(agents, limits_.min, most));
}

}  // namespace es::actors
