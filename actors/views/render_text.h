#pragma once
// The text output of commands: lists, and the summary of a run. Pure functions; every line ends
// with a newline. `columns` is the width of the terminal, if there is one.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/views/table.h"
#include "actors/views/views.h"
#include "proto/base/job_spec.h"

namespace es::actors {

// `ps`: one line for each job; `wide`: with its level, tenant and time left.
std::string jobs_text(const std::vector<JobView>& jobs, bool wide = false,
                      std::size_t columns = kAnyColumns);
// When the device is used again by itself, in UTC; empty if it is not suspect, or not by itself.
std::string suspect_until_text(const DeviceView& device);
// When the node will be gone, in UTC; empty if nothing is announced.
std::string gone_text(const NodeView& node);
// `nodes`: one line for each device type of a node.
std::string nodes_text(const std::vector<NodeView>& nodes, std::size_t columns = kAnyColumns);
// A line about a fault of the head that is still running; empty if there is none.
std::string warning_text(const std::string& warning);
// The end of the output of `run`, and most of `describe`.
std::string summary_text(const JobView& job, std::size_t columns = kAnyColumns);
// Which losses of workers the job survives, as the end of a sentence about it.
std::string survived_losses(const JobSpec& spec);
// `describe`: the summary, the workers, the losses that the job survives and the specification.
std::string details_text(const JobView& job, const std::string& spec_toml,
                         std::size_t columns = kAnyColumns);
// The last lines of `run`: where the weights are. No value means that they are not kept.
std::string weights_text(const std::optional<KeptWeights>& weights);
std::string checkpoint_text(const CheckpointView& checkpoint);

// For example "85.00 %, top5 99.00 %, mean loss 0.7500 on 1000 samples after step 30".
std::string evaluation_text(const EvaluationView& evaluation);

// The displayed name of a metric: "accuracy" for top1, "mean loss" for loss.
std::string metric_name(const MetricView& metric);
// The first metric of the newest evaluation, for example "accuracy 37.50 %"; "-" without one.
std::string headline(const JobView& job);

// The time until the last step at the mean rate of the present placement; nullopt while the job
// does not train.
std::optional<double> seconds_left(const JobView& job);
// The same as a text, such as "3 min 20 s" or "-".
std::string time_left_text(const JobView& job);

// A measured rate with one digit after the point, or "-" if it is not known yet.
std::string rate_text(double per_second);

// For example "1 step", "2 steps"; `several` is the plural if it is not formed by an s.
std::string counted(std::uint64_t count, const std::string& what, const std::string& several = "");

// A number with `decimals` digits after the point, or "-" if it is not finite.
std::string fixed(double value, int decimals);

}  // namespace es::actors
