#include "actors/views/top_view.h"

#include <algorithm>
#include <map>

#include "actors/views/render_text.h"

namespace es::actors {
namespace {

constexpr int kBar = 20;

bool is_live(const JobView& job) {
  return job.state != "finished" && job.state != "failed" && job.state != "cancelled" &&
         job.state != "timed-out";
}

struct Use {
  std::uint32_t all = 0, used = 0;
  double share() const { return all == 0 ? 0 : double(used) / double(all); }
  std::string text() const { return std::to_string(used) + "/" + std::to_string(all); }
};

std::map<std::string, Use> uses_of(const NodeView& node) {
  std::map<std::string, Use> uses;
  for (const DeviceView& device : node.devices) {
    Use& use = uses[device.type];
    ++use.all;
    if (!device.job.empty()) ++use.used;
  }
  return uses;
}

void add(Screen& screen, const Screen& more) {
  screen.insert(screen.end(), more.begin(), more.end());
}

// The heading in bold, and the first rows that have room, with a count of the others.
Screen part(const std::vector<std::vector<std::string>>& rows, std::size_t room, const char* what) {
  Screen all = coloured(table(rows));
  all.front() = {{plain_text(Screen{all.front()}), Style::kBold}};
  all.front().front().text.pop_back();  // the end of the line
  if (all.size() <= room) return all;
  const std::size_t kept = std::max<std::size_t>(room, 2) - 1;
  const std::size_t left_out = all.size() - kept;
  all.resize(kept);
  all.push_back({{"... and " + counted(left_out, what) + " more", Style::kDim}});
  return all;
}

Screen header(const TopFacts& facts) {
  Use use;
  for (const NodeView& node : facts.nodes)
    for (const auto& [type, of_type] : uses_of(node)) {
      use.all += of_type.all;
      use.used += of_type.used;
    }
  std::map<std::string, std::size_t> states;
  for (const JobView& job : facts.jobs) ++states[job.state];
  std::string jobs;
  for (const auto& [state, count] : states)
    jobs += (jobs.empty() ? "" : ", ") + std::to_string(count) + " " + state;
  Screen screen{{{"esctl top", Style::kBold}, {"  " + facts.time + "  " + facts.head}},
                {{"devices in use " + use.text() + " " + bar_text(use.share(), kBar) +
                  "  jobs: " + (jobs.empty() ? "none" : jobs)}}};
  if (!facts.warning.empty()) screen.push_back({{"warning: " + facts.warning, Style::kBad}});
  return screen;
}

std::vector<std::vector<std::string>> node_rows(const std::vector<NodeView>& nodes) {
  std::vector<std::vector<std::string>> rows{{"NODE", "STATE", "DEVICES", "IN USE", "", "SUSPECT"}};
  for (const NodeView& node : nodes) {
    const std::string state = node.draining ? "draining" : node.alive ? "alive" : "lost";
    for (const auto& [type, use] : uses_of(node)) {
      const auto suspects = std::ranges::count_if(node.devices, [&t = type](const DeviceView& d) {
        return d.type == t && !d.suspect.empty();
      });
      rows.push_back({node.name, state, type, use.text(), bar_text(use.share(), kBar),
                      suspects == 0 ? "" : std::to_string(suspects)});
    }
    if (node.devices.empty()) rows.push_back({node.name, state, "-", "0/0", "", ""});
  }
  return rows;
}

std::string percent_text(const JobView& job) {
  if (job.last_step == 0) return "-";
  return fixed(100.0 * double(job.step) / double(job.last_step), 1) + " %";
}

std::vector<std::vector<std::string>> job_rows(const std::vector<JobView>& jobs) {
  std::vector<std::vector<std::string>> rows{
      {"JOB", "STATE", "DONE", "STEP", "LOSS", "SAMPLES/S", "TIME LEFT", "DEVICES", ""}};
  std::vector<JobView> sorted = jobs;
  // Live jobs keep the order of submission; of the others the newest come first.
  std::stable_sort(sorted.begin(), sorted.end(), [](const JobView& a, const JobView& b) {
    if (is_live(a) != is_live(b)) return is_live(a);
    return !is_live(a) && a.submitted_unix_ms > b.submitted_unix_ms;
  });
  for (const JobView& job : sorted)
    rows.push_back({job.id, job.state, percent_text(job),
                    std::to_string(job.step) + "/" + std::to_string(job.last_step),
                    fixed(job.loss_last, 4), rate_text(job.samples_per_second_now),
                    time_left_text(job), job.placement.empty() ? "-" : job.placement,
                    !job.error.empty()        ? job.error
                    : job.waiting_for.empty() ? ""
                                              : "waits for " + job.waiting_for});
  return rows;
}

std::vector<std::vector<std::string>> worker_rows(const JobView& job) {
  std::vector<std::vector<std::string>> rows{
      {"DEVICE", "RANKS", "SAMPLES/S", "LOCAL STEP", "SLOWER BY", "PID"}};
  for (const WorkerView& w : job.workers)
    rows.push_back({w.node + "/" + w.device_type + ":" + std::to_string(w.device_index),
                    std::to_string(w.rank_begin) + " to " + std::to_string(w.rank_end - 1),
                    rate_text(w.samples_per_second),
                    w.local_step_seconds > 0 ? fixed(1e3 * w.local_step_seconds, 1) + " ms" : "-",
                    w.slowness > 1 ? fixed(w.slowness, 1) : "-",
                    w.pid == 0 ? "-" : std::to_string(w.pid)});
  return rows;
}

// The newest stage first, because a job may have had many.
std::vector<std::vector<std::string>> stage_rows(const JobView& job) {
  std::vector<std::vector<std::string>> rows{{"STAGE", "DEVICES", "STEPS", "SECONDS", "PAUSE"}};
  for (std::size_t i = job.stages.size(); i > 0; --i) {
    const StageView& s = job.stages[i - 1];
    rows.push_back({std::to_string(i), s.placement, std::to_string(s.steps), fixed(s.seconds, 1),
                    fixed(s.rescale_seconds, 3)});
  }
  return rows;
}

Screen job_lines(const JobView& job) {
  const double share = job.last_step == 0 ? 0 : double(job.step) / double(job.last_step);
  Screen screen = coloured(table({{"job", job.id}, {"state", job.state}}));
  const std::string loss = fixed(job.loss_first, 4) + " -> " + fixed(job.loss_last, 4);
  std::vector<std::vector<std::string>> rows{
      {"progress", bar_text(share, kBar) + " " + percent_text(job) + "  step " +
                       std::to_string(job.step) + "/" + std::to_string(job.last_step) +
                       "  time left " + time_left_text(job)},
      {"loss", loss},
      {"samples/s", rate_text(job.samples_per_second_now) + " now, " +
                        rate_text(job.samples_per_second_mean) + " on average"},
      {"devices", job.placement.empty() ? "-" : job.placement}};
  if (!job.evaluations.empty() && !job.evaluations.back().metrics.empty())
    rows.push_back({"evaluation", evaluation_text(job.evaluations.back())});
  if (!job.waiting_for.empty()) rows.push_back({"waits for", job.waiting_for});
  if (!job.warning.empty()) rows.push_back({"warning", job.warning});
  if (!job.error.empty()) rows.push_back({"error", job.error});
  add(screen, coloured(table(rows)));
  return screen;
}

}  // namespace

std::string bar_text(double share, int width) {
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * width);
  return "[" + std::string(static_cast<std::size_t>(full), '#') +
         std::string(static_cast<std::size_t>(width - full), '.') + "]";
}

Screen cluster_screen(const TopFacts& facts, ScreenSize size) {
  Screen screen = header(facts);
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 8));
  // Nodes may take half of what is left below the header and its empty line.
  const std::size_t room = rows - screen.size() - 1;
  screen.emplace_back();
  add(screen, part(node_rows(facts.nodes), room / 2, "line"));
  screen.emplace_back();
  add(screen, part(job_rows(facts.jobs), rows - std::min(screen.size(), rows - 2), "job"));
  return screen;
}

Screen job_screen(const JobView& job, const TopFacts& facts, ScreenSize size) {
  Screen screen{{{"esctl top", Style::kBold}, {"  " + facts.time + "  " + facts.head}}};
  if (!facts.warning.empty()) screen.push_back({{"warning: " + facts.warning, Style::kBad}});
  add(screen, job_lines(job));
  const auto rows = static_cast<std::size_t>(std::max(size.rows, 8));
  const auto room = [&] { return rows - std::min(screen.size(), rows - 2); };
  if (!job.workers.empty()) {
    screen.emplace_back();
    add(screen, part(worker_rows(job), std::max<std::size_t>(room() / 2, 2), "worker"));
  }
  if (!job.stages.empty()) {
    screen.emplace_back();
    add(screen, part(stage_rows(job), room(), "stage"));
  }
  return screen;
}

}  // namespace es::actors
