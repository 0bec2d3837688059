#include "actors/esctl/slurm/slurm_text.h"

#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>

namespace es::actors::esctl {
namespace {

constexpr std::uint32_t kAgentsMax = 1000;

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  std::size_t begin = 0;
  for (std::size_t end; (end = line.find('|', begin)) != std::string::npos; begin = end + 1)
    fields.push_back(line.substr(begin, end - begin));
  fields.push_back(line.substr(begin));
  return fields;
}

}  // namespace

Result<std::vector<QueuedJob>> parse_queue(const std::string& text) {
  constexpr std::size_t kFields = 5;
  std::vector<QueuedJob> jobs;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (line.empty()) continue;
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() != kFields)
      return failure("squeue printed \"" + line + "\"; expected is " + kQueueFormat);
    // A job that is not in an array has N/A as its index.
    jobs.push_back({.id = fields[0],
                    .name = fields[1],
                    .state = fields[2],
                    .index = number(fields[3]).value_or(0),
                    .node = fields[4]});
  }
  return jobs;
}

std::set<std::string> parse_draining_nodes(const std::string& text) {
  std::set<std::string> nodes;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> fields = fields_of(line);
    // draining, drained, and both with a mark such as * for a node that does not answer.
    if (fields.size() == 2 && fields[1].starts_with("drain")) nodes.insert(fields[0]);
  }
  return nodes;
}

AgentState agent_state(const std::string& slurm_state) {
  // An agent that was preempted is COMPLETING until its node is cleaned up, and then PENDING again.
  // If another one was asked for in the meantime, there would be one too many.
  static const std::set<std::string> kWaits{"PENDING",      "COMPLETING",  "REQUEUED",
                                            "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD",
                                            "SPECIAL_EXIT"};
  static const std::set<std::string> kRuns{"RUNNING", "CONFIGURING", "SUSPENDED",
                                           "STOPPED", "RESIZING",    "SIGNALING"};
  if (kWaits.contains(slurm_state)) return AgentState::kQueued;
  return kRuns.contains(slurm_state) ? AgentState::kRunning : AgentState::kEnding;
}

std::string agent_node_name(const QueuedJob& agent) {
  return agent.node + "." + std::to_string(agent.index);
}

std::string array_text(const std::vector<std::uint32_t>& indices) {
  std::string text;
  for (std::size_t begin = 0; begin < indices.size();) {
    std::size_t end = begin + 1;
    while (end < indices.size() && indices[end] == indices[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(indices[begin]);
    if (end - begin > 1) text += "-" + std::to_string(indices[end - 1]);
    begin = end;
  }
  return text;
}

Result<std::string> parse_submitted(const std::string& text) {
  const std::string id = text.substr(0, text.find_first_of(";\n"));
  if (!number(id))
    return failure("sbatch --parsable printed \"" + text + "\"; expected is a number");
  return id;
}

Result<AgentLimits> parse_limits(const std::string& text) {
  const Error wrong = usage_error("--nodes " + text + ": allowed is MIN..MAX or N, with at most " +
                                  std::to_string(kAgentsMax) + " nodes, such as 4..16");
  const std::size_t dots = text.find("..");
  const auto min = number(std::string_view(text).substr(0, dots));
  const auto max =
      dots == std::string::npos ? min : number(std::string_view(text).substr(dots + 2));
  if (!min || !max || *max < 1 || *max > kAgentsMax || *min > *max) return wrong;
  return AgentLimits{.min = *min, .max = *max};
}

}  // namespace es::actors::esctl
