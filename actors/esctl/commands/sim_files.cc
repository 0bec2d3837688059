#include "actors/esctl/commands/sim_parts.h"

#include <filesystem>
#include <fstream>

#include "actors/service/shell/web_files.h"
#include "actors/sim/report/charts.h"
#include "actors/sim/report/job_allocations.h"
#include "actors/views/sim_view.h"
#include "proto/base/number_text.h"

namespace es::actors::esctl {
namespace {

namespace fs = std::filesystem;
using simulator::SimulationResult;

Status write_one(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) return failure(path.string() + ": cannot be written");
  return {};
}

std::vector<const SimulationResult*> results_of(const std::vector<SimRun>& runs) {
  std::vector<const SimulationResult*> results;
  for (const SimRun& run : runs) results.push_back(&run.result);
  return results;
}

// The tables and charts of one simulation. `suffix` ends their names.
Files files_of(const Scene& scene, const SimRun& run, const std::string& suffix) {
  const simulator::Workload& jobs = scene.workload;
  Files files{
      {"jobs" + suffix + ".csv", simulator::jobs_csv(jobs, run.result, scene.world.start_s)},
      {"allocation" + suffix + ".csv", simulator::allocation_csv(run.result)},
      {"allocation" + suffix + ".svg", simulator::allocation_chart(run.result)},
      {"job_allocations" + suffix + ".csv", simulator::job_allocations_csv(jobs, run.result)},
      {"job_allocations" + suffix + ".svg", simulator::job_chart(jobs, run.result)},
      {"groups" + suffix + ".csv", simulator::groups_csv(run.report.groups)},
      {"groups_over_time" + suffix + ".csv",
       simulator::groups_over_time_csv(
           simulator::groups_over_time(jobs, run.result, scene.queues))}};
  if (!run.report.guarantees.empty())
    files.emplace_back("guarantees" + suffix + ".csv",
                       simulator::guarantees_csv(run.report.guarantees));
  return files;
}

std::vector<std::pair<std::string, std::string>> facts_of(const SimOptions& options,
                                                          const Scene& scene) {
  return {{"Trace", fs::path(options.trace).filename().string()},
          {"Jobs", std::to_string(scene.workload.jobs.size())},
          {"Cluster", scene.workload.cluster.text()},
          {"Start cost", number_text(scene.world.start_s) + " s"},
          {"Rescale cost", number_text(scene.world.rescale_s) + " s"},
          {"Seed", std::to_string(scene.world.seed)}};
}

// All results in one page. `fairness` is the chart of a comparison, or empty.
std::string page_of(const SimOptions& options, const Scene& scene, const std::vector<SimRun>& runs,
                    const std::string& fairness) {
  const std::vector<const SimulationResult*> results = results_of(runs);
  SimPage page{.facts = facts_of(options, scene),
               .reports = {},
               .charts = {{"Jobs that ended within a time", simulator::jct_chart(results)},
                          {"Jobs without any device over time", simulator::queue_chart(results)}},
               .style = http::web_file("/web/style.css")->text};
  if (!fairness.empty()) page.charts.emplace_back("Speed against fairness", fairness);
  for (const SimRun& run : runs) {
    const std::string of = ": " + run.result.policy;
    page.reports.push_back(run.report);
    page.charts.emplace_back("Devices over time" + of, simulator::allocation_chart(run.result));
    const auto series = simulator::groups_over_time(scene.workload, run.result, scene.queues);
    for (const auto& [kind, chart] : simulator::group_charts(series, run.result.policy))
      page.charts.emplace_back("Devices by " + kind + " over time" + of, chart);
    page.charts.emplace_back("Jobs over time, and why they waited" + of,
                             simulator::job_chart(scene.workload, run.result));
  }
  return sim_page(page);
}

}  // namespace

Status write_files(const std::string& out, const Files& files) {
  std::error_code code;
  fs::create_directories(out, code);
  if (code) return failure("--out " + out + ": " + code.message());
  for (const auto& [name, text] : files) ES_RETURN_IF_ERROR(write_one(fs::path(out) / name, text));
  return {};
}

Status write_results(const SimOptions& options, const Scene& scene, const std::vector<SimRun>& runs,
                     const std::string& fairness) {
  const std::vector<const SimulationResult*> results = results_of(runs);
  Files files{{"jct.svg", simulator::jct_chart(results)},
              {"queue.svg", simulator::queue_chart(results)},
              {"index.html", page_of(options, scene, runs, fairness)}};
  if (!fairness.empty()) files.emplace_back("fairness.svg", fairness);
  for (const SimRun& run : runs) {
    const std::string suffix = runs.size() == 1 ? "" : "-" + run.result.policy;
    for (auto& file : files_of(scene, run, suffix)) files.push_back(std::move(file));
  }
  return write_files(options.out, files);
}

Status write_sweep(const SimOptions& options, const std::vector<simulator::Size>& sizes) {
  SimPage page{.facts = {{"Trace", fs::path(options.trace).filename().string()},
                         {"Cluster at scale 1", options.cluster}},
               .reports = {},
               .charts = {},
               .style = http::web_file("/web/style.css")->text};
  Files files{{"sweep.csv", simulator::sweep_csv(sizes)}};
  for (const simulator::SweepChart& chart : simulator::sweep_charts(sizes)) {
    page.charts.emplace_back(chart.caption, chart.svg);
    files.emplace_back(chart.file, chart.svg);
  }
  for (const simulator::Size& size : sizes)
    for (simulator::Report report : size.reports) {
      report.policy += ", " + std::to_string(size.cluster.total()) + " devices";
      report.groups.clear();
      page.reports.push_back(std::move(report));
    }
  for (std::size_t p = 0; p < sizes.front().reports.size(); ++p)
    page.notes.push_back(enough_text(sizes, p));
  files.emplace_back("index.html", sim_page(page));
  return write_files(options.out, files);
}

}  // namespace es::actors::esctl
