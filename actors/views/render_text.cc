#include "actors/views/render_text.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>

#include "actors/base/job_file/job_file.h"
#include "actors/base/log/line.h"
#include "proto/base/number_text.h"

namespace es::actors {
namespace {

using Row = std::vector<std::string>;

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string step_text(const JobView& job) {
  return std::to_string(job.step) + "/" + std::to_string(job.last_step);
}

// All metrics except the loss and the perplexity are fractions of one.
std::string value_text(const MetricView& metric) {
  if (!std::isfinite(metric.value)) return "not finite";
  const bool is_number = metric.name == "loss" || metric.name == "perplexity" ||
                         metric.name == "mse" || metric.name == "mae";
  return is_number ? fixed(metric.value, 4) : fixed(100 * metric.value, 2) + " %";
}

bool is_evaluated(const JobView& job) {
  return !job.evaluations.empty() && !job.evaluations.back().metrics.empty();
}

// For example "512.3 samples/s now, 498.0 samples/s on average over all training".
std::string speed_text(const JobView& job) {
  if (job.samples_per_second_mean <= 0) return "-";
  const std::string mean =
      rate_text(job.samples_per_second_mean) + " samples/s on average over all training";
  if (job.samples_per_second_now <= 0) return mean;
  return rate_text(job.samples_per_second_now) + " samples/s now, " + mean;
}

// For example "12.3 MB in shared memory and 4.1 MB in messages a step".
std::string exchange_text(const JobView& job) {
  const auto& counts = job.step_times.counts;
  const auto steps = std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  std::string text;
  const auto add = [&](std::uint64_t bytes, const char* where) {
    if (bytes == 0 || steps == 0) return;
    const double megabytes = static_cast<double>(bytes) / static_cast<double>(steps) / 1e6;
    text += (text.empty() ? "" : " and ") + fixed(megabytes, 3) + " MB " + where;
  };
  add(job.shared_memory_bytes, "in shared memory");
  add(job.message_bytes, "in messages");
  add(job.channel_bytes, "between GPUs");
  return text.empty() ? text : text + " a step";
}

std::string stages_text(const std::vector<StageView>& stages, std::size_t columns) {
  std::vector<Row> rows{{"STAGE", "DEVICES", "STEPS", "SECONDS", "SECONDS OF PAUSE BEFORE"}};
  for (const StageView& s : stages)
    rows.push_back({std::to_string(rows.size()), s.placement, std::to_string(s.steps),
                    fixed(s.seconds, 2), fixed(s.rescale_seconds, 3)});
  return table(rows, columns);
}

// For example "0 to 3" including the last one, or "2" for one rank.
std::string ranks_text(std::uint32_t begin, std::uint32_t end) {
  if (end <= begin) return "-";
  const std::string first = std::to_string(begin);
  return end == begin + 1 ? first : first + " to " + std::to_string(end - 1);
}

std::string workers_text(const std::vector<WorkerView>& workers, std::size_t columns) {
  std::vector<Row> rows{
      {"WORKER", "NODE", "DEVICE", "RANKS", "PID", "LOCAL STEP", "SAMPLES/S", ""}};
  for (const WorkerView& w : workers)
    rows.push_back({std::to_string(w.incarnation), w.node,
                    w.device_type + "#" + std::to_string(w.device_index),
                    ranks_text(w.rank_begin, w.rank_end), std::to_string(w.pid),
                    w.local_step_seconds > 0 ? fixed(w.local_step_seconds * 1e3, 1) + " ms" : "-",
                    rate_text(w.samples_per_second),
                    w.slowness > 1 ? "slow: x" + fixed(w.slowness, 1) : ""});
  return table(rows, columns);
}

std::string unix_ms_text(std::uint64_t unix_ms) {
  return log::time_text(std::chrono::system_clock::time_point(std::chrono::milliseconds(unix_ms)));
}

std::string suspects_text(const std::vector<NodeView>& nodes) {
  std::string text;
  for (const NodeView& node : nodes)
    for (const DeviceView& d : node.devices)
      if (!d.suspect.empty())
        text += (d.suspect_until_unix_ms == 0
                     ? std::string("suspect, given to no job: ")
                     : "set aside, tried again at " + suspect_until_text(d) + ": ") +
                node.name + "/" + d.type + ":" + std::to_string(d.index) + ": " + d.suspect + "\n";
  return text;
}

// Each pair of nodes once.
std::string cuts_text(const std::vector<NodeView>& nodes) {
  std::string text;
  for (const NodeView& node : nodes)
    for (const std::string& other : node.cut_from)
      if (node.name < other)
        text += "no link between the nodes " + node.name + " and " + other +
                ": for now no job is given devices of both\n";
  return text;
}

std::string disks_text(const std::vector<NodeView>& nodes) {
  std::string text;
  for (const NodeView& node : nodes)
    if (!node.checkpoint_problem.empty())
      text += "no job can be saved on " + node.name + ": " + node.checkpoint_problem + "\n";
  return text;
}

std::string waits_text(const std::vector<JobView>& jobs) {
  std::string text;
  for (const JobView& job : jobs)
    if (!job.waiting_for.empty()) text += job.id + " waits for " + job.waiting_for + "\n";
  return text;
}

}  // namespace

std::string evaluation_text(const EvaluationView& e) {
  std::string text;
  for (const MetricView& m : e.metrics)
    text += text.empty() ? value_text(m) : ", " + metric_name(m) + " " + value_text(m);
  return text + " on " + counted(e.total, "sample") + " after step " + std::to_string(e.version);
}

// "7.93 of a budget of 8, and 3.60 an hour now"
std::string spent_text(const JobView& job) {
  std::string text = fixed(job.spent, 2);
  if (job.budget > 0) text += " of a budget of " + number_text(job.budget);
  if (job.price_per_hour > 0) text += ", and " + fixed(job.price_per_hour, 2) + " an hour now";
  return text;
}

std::string amount_or_dash(double amount) {
  return amount > 0 ? fixed(amount, 2) : "-";
}

std::string jobs_text(const std::vector<JobView>& jobs, bool wide, std::size_t columns) {
  std::vector<Row> rows{
      {"JOB", "STATE", "STEP", "LOSS", "SAMPLES/S", "DEVICES", "METRIC", "ERROR"}};
  if (wide) rows[0].insert(rows[0].end() - 1, {"LEVEL", "TENANT", "TIME LEFT", "SPENT", "BUDGET"});
  for (const JobView& job : jobs) {
    Row row{job.id,
            job.state,
            step_text(job),
            fixed(job.loss_last, 4),
            rate_text(job.samples_per_second_now),
            or_dash(job.placement),
            headline(job)};
    if (wide)
      row.insert(row.end(), {job.level, or_dash(job.tenant), time_left_text(job),
                             amount_or_dash(job.spent), amount_or_dash(job.budget)});
    row.push_back(job.error);
    rows.push_back(std::move(row));
  }
  return table(rows, columns) + wrapped(waits_text(jobs), columns);
}

std::string suspect_until_text(const DeviceView& device) {
  return device.suspect_until_unix_ms == 0 ? "" : unix_ms_text(device.suspect_until_unix_ms);
}

std::string gone_text(const NodeView& node) {
  return node.gone_unix_ms == 0 ? "" : unix_ms_text(node.gone_unix_ms);
}

std::string nodes_text(const std::vector<NodeView>& nodes, std::size_t columns) {
  struct Count {
    int all = 0, used = 0;
  };
  std::vector<Row> rows{{"NODE", "STATE", "DEVICES", "COUNT", "IN USE", "CHECKPOINTS"}};
  const bool has_racks = std::any_of(nodes.begin(), nodes.end(),
                                     [](const NodeView& node) { return !node.rack.empty(); });
  if (has_racks) rows.front().emplace_back("RACK");
  for (const NodeView& node : nodes) {
    // A node that is draining is still alive.
    const std::string state = node.draining ? "draining" : node.alive ? "alive" : "lost";
    std::map<std::string, Count> by_type;
    for (const DeviceView& d : node.devices) {
      Count& count = by_type[d.type];
      ++count.all;
      if (!d.job.empty()) ++count.used;
    }
    const std::string disk = or_dash(node.checkpoints);
    if (by_type.empty()) by_type["-"];
    for (const auto& [type, count] : by_type) {
      rows.push_back(
          {node.name, state, type, std::to_string(count.all), std::to_string(count.used), disk});
      if (has_racks) rows.back().push_back(or_dash(node.rack));
    }
  }
  std::string notes;
  for (const NodeView& node : nodes) {
    if (node.spot) notes += "node " + node.name + " is a spot node\n";
    if (node.alive && node.gone_unix_ms != 0)
      notes += "node " + node.name + " will be gone at " + gone_text(node) +
               "; its jobs leave it in time\n";
  }
  notes += suspects_text(nodes) + cuts_text(nodes) + disks_text(nodes);
  return table(rows, columns) + wrapped(notes, columns);
}

std::string warning_text(const std::string& warning) {
  return warning.empty() ? "" : "warning: " + warning + "\n";
}

// What evaluations have decided.
std::vector<Row> decision_rows(const DecisionsView& d) {
  std::vector<Row> rows;
  if (d.best_version != 0)
    rows.push_back({"best", d.best_metric + " " + fixed(d.best_value, 4) + " after step " +
                                std::to_string(d.best_version) +
                                (d.best_checkpoint.empty() ? "" : ", " + d.best_checkpoint)});
  if (d.reductions != 0)
    rows.push_back(
        {"learning rate",
         "lowered " + counted(d.reductions, "time") +
             (d.reduced_at == 0 ? "" : ", last after step " + std::to_string(d.reduced_at))});
  if (d.stopped_at != 0)
    rows.push_back({"ended early", "after step " + std::to_string(d.stopped_at)});
  return rows;
}

std::string summary_text(const JobView& job, std::size_t columns) {
  std::vector<Row> rows{
      {"job", job.id},
      {"state", job.state},
      {"level", job.level + ", " + counted(job.max_p, "EST")},
      {"steps", step_text(job)},
      {"loss", fixed(job.loss_first, 6) + " -> " + fixed(job.loss_last, 6)},
  };
  if (is_evaluated(job)) {
    const EvaluationView& last = job.evaluations.back();
    rows.push_back({"test " + metric_name(last.metrics.front()), evaluation_text(last)});
  }
  rows.push_back({"throughput", speed_text(job)});
  if (const std::string left = time_left_text(job); left != "-")
    rows.push_back({"time left", left});
  rows.push_back({"peak memory", fixed(job.peak_rss_mib, 1) + " MiB in a worker"});
  rows.push_back({"between ESTs", fixed(100 * job.context_switch_share, 2) + " % switching, " +
                                      fixed(100 * job.data_wait_share, 2) + " % waiting for data"});
  if (const std::string exchanged = exchange_text(job); !exchanged.empty())
    rows.push_back({"exchanged", exchanged});
  if (!job.placement.empty()) rows.push_back({"devices", job.placement});
  if (job.spent > 0 || job.budget > 0) rows.push_back({"spent", spent_text(job)});
  if (!job.checkpoint.empty()) rows.push_back({"checkpoint", job.checkpoint});
  for (Row& row : decision_rows(job.decisions)) rows.push_back(std::move(row));
  if (!job.warning.empty()) rows.push_back({"warning", job.warning});
  if (!job.error.empty()) rows.push_back({"error", job.error});
  if (!job.waiting_for.empty()) rows.push_back({"waits for", job.waiting_for});
  rows.push_back({"params digest", or_dash(job.params_digest)});
  rows.push_back({"state digest", or_dash(job.state_digest)});
  return table(rows, columns) + (job.stages.empty() ? "" : "\n" + stages_text(job.stages, columns));
}

std::string survived_losses(const JobSpec& spec) {
  return spec.shard.state == "on"
             ? "goes on after the loss of any worker: its state is divided, and each part is on "
               "two "
               "workers, on two nodes where there are two; if both are lost at once, it continues "
               "from its newest checkpoint or saved state"
             : "goes on while one worker is left: each has the whole state; if all are lost at "
               "once, it continues from its newest checkpoint or saved state";
}

std::string details_text(const JobView& job, const std::string& spec_toml, std::size_t columns) {
  const Result<JobSpec> spec = parse_job(spec_toml, job.id);
  const bool may_lose = spec && job.ended_unix_ms == 0;
  const std::string losses =
      may_lose ? "\n" + wrapped("The job " + survived_losses(*spec) + ".\n", columns) : "";
  const std::string workers = job.workers.empty() ? "" : "\n" + workers_text(job.workers, columns);
  return summary_text(job, columns) + workers + losses + "\n" + spec_toml +
         (spec_toml.ends_with('\n') ? "" : "\n");
}

std::string weights_text(const std::optional<KeptWeights>& weights) {
  if (!weights) return "\nThe weights are not kept. With --checkpoint DIR they are.\n";
  return "\nThe weights of step " + std::to_string(weights->step) + " are in " + weights->path +
         "\n  for PyTorch:  esctl export " + weights->path + " FILE.safetensors\n" +
         "  to continue:  esctl run JOB.toml --from " + weights->path + "\n";
}

std::string checkpoint_text(const CheckpointView& checkpoint) {
  std::vector<std::vector<std::string>> rows{{"checkpoint", checkpoint.path},
                                             {"step", std::to_string(checkpoint.version)},
                                             {"params digest", checkpoint.params_digest},
                                             {"state digest", checkpoint.state_digest}};
  if (!checkpoint.first_error.empty()) rows.push_back({"here because", checkpoint.first_error});
  return table(rows);
}

std::string metric_name(const MetricView& metric) {
  if (metric.name == "top1") return "accuracy";
  return metric.name == "loss" ? "mean loss" : metric.name;
}

std::string headline(const JobView& job) {
  if (!is_evaluated(job)) return "-";
  const MetricView& metric = job.evaluations.back().metrics.front();
  return metric_name(metric) + " " + value_text(metric);
}

std::string counted(std::uint64_t count, const std::string& what, const std::string& several) {
  const std::string plural = several.empty() ? what + "s" : several;
  return std::to_string(count) + " " + (count == 1 ? what : plural);
}

std::optional<double> seconds_left(const JobView& job) {
  if (job.stages.empty() || job.samples_per_second_now <= 0) return {};
  const StageView& stage = job.stages.back();
  if (stage.steps == 0 || job.step >= job.last_step) return {};
  return double(job.last_step - job.step) * stage.seconds / double(stage.steps);
}

std::string time_left_text(const JobView& job) {
  constexpr int kMinute = 60, kHour = 60 * kMinute;
  const std::optional<double> left = seconds_left(job);
  if (!left) return "-";
  const auto seconds = static_cast<std::uint64_t>(*left);
  if (seconds >= kHour)
    return std::to_string(seconds / kHour) + " h " + std::to_string(seconds % kHour / kMinute) +
           " min";
  if (seconds >= kMinute)
    return std::to_string(seconds / kMinute) + " min " + std::to_string(seconds % kMinute) + " s";
  return std::to_string(seconds) + " s";
}

std::string rate_text(double per_second) {
  return per_second > 0 ? fixed(per_second, 1) : "-";
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  // The largest double has 309 digits before the point, so the length is asked for first.
  const int size = std::snprintf(nullptr, 0, "%.*f", decimals, value);
  std::string text(static_cast<std::size_t>(size), '\0');
  std::snprintf(text.data(), text.size() + 1, "%.*f", decimals, value);
  return text;
}

}  // namespace es::actors
