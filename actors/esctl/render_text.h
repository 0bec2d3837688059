#pragma once
// The text that commands print for people: tables and the summary of a run. Pure functions; every
// line ends with a newline.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/esctl/views.h"

namespace es::actors::esctl {

// Columns as wide as their longest cell, two spaces between, no trailing spaces. The first row is
// the heading.
std::string table(const std::vector<std::vector<std::string>>& rows);

// `ps`: one line for each job.
std::string jobs_text(const std::vector<JobView>& jobs);
// `nodes`: one line for each device type of a node.
std::string nodes_text(const std::vector<NodeView>& nodes);
// What is wrong with the head though it runs: a line, or nothing.
std::string warning_text(const std::string& warning);
// The end of `run`, and most of `describe`.
std::string summary_text(const JobView& job);
// `describe`: the summary, the workers, and the specification.
std::string details_text(const JobView& job, const std::string& spec_toml);
// The last lines of `run`: where the weights are; none: nowhere.
std::string weights_text(const std::optional<KeptWeights>& weights);
std::string checkpoint_text(const CheckpointView& checkpoint);

// What people read for a metric's name: "accuracy" for top1, "mean loss" for loss.
std::string metric_name(const MetricView& metric);

// Of something measured, with one digit; "-" before it is.
std::string rate_text(double per_second);

// "1 step", "2 steps".
std::string counted(std::uint64_t count, const std::string& what);

// With `decimals` digits after the point; "-" when not finite.
std::string fixed(double value, int decimals);

}  // namespace es::actors::esctl
