#pragma once
// The texts of Slurm's programs and of the options of `esctl slurm`. Pure functions.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "actors/agents/core/agent_planner.h"
#include "proto/base/result.h"

namespace es::actors::esctl {

// The format for squeue --array --noheader --format, whose lines parse_queue reads.
inline constexpr const char* kQueueFormat = "%i|%j|%T|%K|%N";

struct QueuedJob {
  std::string id;           // 17, or 17_3 for a task of an array
  std::string name;         // of the job
  std::string state;        // such as PENDING, RUNNING, COMPLETING
  std::uint32_t index = 0;  // in the array; 0 outside of one
  std::string node;         // empty while it has none
  bool operator==(const QueuedJob&) const = default;
};

// Error (failure): a line has another form; the message quotes it.
Result<std::vector<QueuedJob>> parse_queue(const std::string& text);

// The nodes that drain, from lines of sinfo in the format kNodeFormat.
inline constexpr const char* kNodeFormat = "%N|%T";
std::set<std::string> parse_draining_nodes(const std::string& text);

// What a state of Slurm means for an agent.
AgentState agent_state(const std::string& slurm_state);

// The name under which the daemon of this agent joins the head (configs/slurm/agent.sbatch).
std::string agent_node_name(const QueuedJob& agent);

// "0-2,5" for {0, 1, 2, 5}. REQUIRES: ascending, and not empty.
std::string array_text(const std::vector<std::uint32_t>& indices);

// The first word of what `sbatch --parsable` prints, "17" or "17;cluster". Error (failure): it is
// no number.
Result<std::string> parse_submitted(const std::string& text);

// The limits of `--nodes`: "MIN..MAX" or "N". Error (usage): another text, MIN > MAX, or a maximum
// outside of 1 to 1000.
Result<AgentLimits> parse_limits(const std::string& text);

}  // namespace es::actors::esctl
