#pragma once
// AgentPlanner decides how many agents an EasyScale cluster asks the owner of the machines for
// (Slurm or Kubernetes), and which it gives back. An agent is one job of Slurm, a task of an array,
// or one pod of a group; its index is unique among them. Pure: no clock, process or connection.
//
// How many agents are wanted: as many as the devices that the jobs could use, divided by the
// devices of an agent, within the limits. What is missing is asked for at once. An agent of which
// no device was in use for `idle` is given back, above the minimum; the time in which it waits for
// agents that were asked for and that jobs need together with it does not count. If it is given
// back although jobs could use more devices, as its type does not suit them or a further device
// would not help them, no more agents are asked for until a job is new or wants more.
//
// An agent whose node drains is given back at once, and another one is asked for.
//
// Agents that end before they have joined the head are asked for again after a pause that doubles.
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace es::actors {

struct AgentLimits {
  std::uint32_t min = 0;
  std::uint32_t max = 0;  // at least 1
  std::chrono::seconds idle{0};
  bool operator==(const AgentLimits&) const = default;
};

enum class AgentState {
  kQueued,   // it has no node yet
  kRunning,  // it was started
  kEnding,   // it hands its workers over, or has ended
};

struct AgentSeen {
  std::string job;  // what the owner calls it: 17_3, or the name of the pod
  std::uint32_t index = 0;
  AgentState state = AgentState::kQueued;
  bool node_drains = false;  // its node gets no new jobs, because an operator wants to have it
  // What the head knows; 0 devices: it has not joined.
  std::uint32_t devices = 0;
  std::uint32_t devices_in_use = 0;
};

struct AgentsSeen {
  std::vector<AgentSeen> agents;
  // Of each job that is not over: the largest number of devices that it could use now. Of each
  // claim (claim_key): its devices.
  std::map<std::string, std::uint32_t> devices_wanted;
  // The devices of all claims. The head does not say which ones: the first free ones count.
  std::uint32_t claimed = 0;
};

// No job has such an id.
inline std::string claim_key(const std::string& claim) {
  return "claim " + claim;
}

struct AgentOrders {
  std::vector<std::uint32_t> ask;      // indices of new agents, ascending
  std::vector<std::string> cancel;     // agents that wait for a node
  std::vector<std::string> give_back;  // agents that run
  bool operator==(const AgentOrders&) const = default;
};

class AgentPlanner {
 public:
  explicit AgentPlanner(AgentLimits limits) : limits_(limits) {}

  // The orders for what was seen at `now`, a time that never goes back. REQUIRES: the orders of the
  // last call were carried out, or have failed.
  AgentOrders decide(const AgentsSeen& seen, std::chrono::seconds now);

  // The time before which no agent is asked for, since agents have ended before they joined.
  std::optional<std::chrono::seconds> held_back_until() const;

 private:
  // What is remembered of an agent between two calls.
  struct Memory {
    bool joined = false;
    bool ran = false;
    bool given_back = false;
    std::optional<std::chrono::seconds> idle_since;
  };
  // The wishes that a cluster of `agents` could not satisfy by more agents.
  struct Enough {
    std::uint32_t agents = 0;
    std::map<std::string, std::uint32_t> devices_wanted;
  };

  void remember(const AgentsSeen& seen, std::chrono::seconds now);
  void note_ends(const AgentsSeen& seen, std::chrono::seconds now);
  std::uint32_t wanted_agents(const AgentsSeen& seen);
  bool others_come(const AgentsSeen& seen) const;
  void restart_idle_clocks(std::chrono::seconds now);
  bool wishes_more(const std::map<std::string, std::uint32_t>& wanted) const;

  const AgentLimits limits_;
  std::map<std::string, Memory> memory_;  // by the name of the agent's job
  std::optional<Enough> enough_;
  std::uint32_t devices_per_agent_ = 1;  // of the last agent that has joined
  std::uint32_t failed_starts_ = 0;      // since the last agent that has joined
  std::chrono::seconds ask_again_at_{0};
};

}  // namespace es::actors
