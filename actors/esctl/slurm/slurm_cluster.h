#pragma once
// SlurmCluster: what `esctl slurm up --here` does. It runs the head of a cluster, asks Slurm for
// agents and gives idle ones back (agent_planner.h). What it knows of the agents it reads from
// squeue and from the head each time, so a later process continues where this one ended.
//
// It ends
//   at SIGTERM or SIGINT: the head is stopped in good order, and the agents train on;
//   after `esctl slurm down`: all agents hand over, and then the head is stopped.
// A head that dies is started again, at the same port, so that its agents find it.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/agents/core/agent_planner.h"
#include "actors/esctl/client/client.h"
#include "actors/esctl/slurm/cluster_directory.h"
#include "actors/esctl/slurm/head_process.h"
#include "actors/views/console.h"

namespace es::actors::esctl {

struct SlurmOptions {
  AgentLimits limits;
  std::string partition;                   // of the agents; empty: Slurm's default
  std::vector<std::string> agent_options;  // of sbatch, for the agents
  std::string address;                     // at which the head listens
  std::chrono::milliseconds every{0};      // time between two looks at the cluster
  std::filesystem::path esctl, easyscaled;
};

class SlurmCluster {
 public:
  // REQUIRES: the arguments outlive it.
  SlurmCluster(const ClusterDirectory& directory, const SlurmOptions& options, StopSignals& signals,
               Console& console)
      : directory_(directory),
        options_(options),
        signals_(signals),
        console_(console),
        planner_(options.limits) {}

  // Returns when the cluster has ended in good order. Errors: the head does not start.
  Status run();

 private:
  Status start_head();
  Result<std::unique_ptr<HeadProcess>> start_head_at(const std::string& port);
  Status restart_head(const std::string& end);
  Status leave_agents_of_another_head(const std::string& before);
  // Looks at the cluster and carries the planner's orders out.
  Status look_after_agents();
  Result<AgentsSeen> see();
  Status ask_head(AgentsSeen& seen, const std::vector<std::pair<std::string, std::size_t>>& nodes);
  Status carry_out(const AgentOrders& orders, const AgentsSeen& seen);
  // Returns whether no agent is left.
  Result<bool> end_agents();
  void say(const std::string& line);
  // Says the same trouble once.
  void say_trouble(const Status& status);
  bool stop_requested() const { return signals_.count() > 0; }
  void wait_a_while();

  const ClusterDirectory& directory_;
  const SlurmOptions& options_;
  StopSignals& signals_;
  Console& console_;
  AgentPlanner planner_;
  std::unique_ptr<HeadProcess> head_;
  std::unique_ptr<Client> client_;
  std::string trouble_;
  bool agents_told_to_end_ = false;
};

// The IPv4 address of this machine by which others reach it, as far as it can be known: that of its
// host name, otherwise that of its first network interface, otherwise 127.0.0.1.
std::string own_address();

}  // namespace es::actors::esctl
