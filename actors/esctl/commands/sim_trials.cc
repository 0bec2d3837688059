#include "actors/esctl/commands/sim_parts.h"

#include <algorithm>
#include <utility>

#include "actors/views/sim_view.h"
#include "proto/base/number_text.h"

namespace es::actors::esctl {
namespace {

using simulator::Report;

// What differs between simulations with different seeds; empty if nothing that matters does.
std::string varies_text(const SimOptions& options) {
  const simulator::Knowledge& known = options.knowledge;
  const std::pair<bool, const char*> parts[] = {
      {options.resample, "the jobs that are drawn from the trace"},
      {options.world.failure_hours > 0, "the times at which nodes are lost"},
      {options.world.straggler_hours > 0, "the times at which devices are slow"},
      {!known.is_perfect(), "what policies are told about jobs"}};
  std::string text;
  for (const auto& [varies, part] : parts)
    if (varies) text += (text.empty() ? "" : ", ") + std::string(part);
  return text.empty() ? text : text + ", and submissions by up to a second";
}

Result<std::vector<Report>> reports_of(const SimOptions& options,
                                       const std::vector<Contestant>& contestants,
                                       const std::string& where, DeviceSet& cluster,
                                       Console& console) {
  const auto scene = read_scene(options);
  if (!scene) return scene.error();
  cluster = scene->workload.cluster;
  ES_RETURN_IF_ERROR(check_contestants(contestants, *scene));
  std::vector<Report> reports;
  for (const Contestant& contestant : contestants) {
    // The report has the name of the policy; the rest is for those who wait.
    auto run = run_contestant(*scene, options, contestant, contestant.label() + where, console);
    if (!run) return run.error();
    run->report.policy = contestant.label();
    reports.push_back(std::move(run->report));
  }
  return reports;
}

}  // namespace

Result<int> repeat_policies(const SimOptions& options, const std::vector<std::string>& policies,
                            Console& console) {
  const std::string varies = varies_text(options);
  if (varies.empty())
    return usage_error(
        "--repeat: the simulations would not differ; allowed together with --resample, --failures, "
        "--stragglers, --estimate-error, --unknown-lengths or --lying-users");
  const std::vector<Contestant> contestants = contestants_of(policies, options);
  std::vector<simulator::Repeats> repeats;
  for (const Contestant& contestant : contestants) repeats.push_back({contestant.label(), {}, {}});
  SimOptions one = options;
  one.out.clear();
  for (std::uint32_t i = 0; i < options.repeat; ++i) {
    // The seed 0 stands for no delays of submissions, so the first one is 1.
    one.world.seed = std::max<std::uint64_t>(1, options.world.seed) + i;
    DeviceSet cluster;
    auto reports =
        reports_of(one, contestants, " seed " + std::to_string(one.world.seed), cluster, console);
    if (!reports) return reports.error();
    for (std::size_t p = 0; p < reports->size(); ++p) {
      repeats[p].seeds.push_back(one.world.seed);
      repeats[p].reports.push_back(std::move((*reports)[p]));
    }
  }
  if (!options.out.empty())
    ES_RETURN_IF_ERROR(
        write_files(options.out, {{"repeats.csv", simulator::repeats_csv(repeats)}}));
  console.out << (options.json ? repeats_json(repeats, varies) + "\n"
                               : repeats_text(repeats, varies));
  return 0;
}

Result<int> sweep_sizes(const SimOptions& options, const std::vector<std::string>& policies,
                        Console& console) {
  const std::vector<Contestant> contestants = contestants_of(policies, options);
  std::vector<double> scales = options.scales;
  std::ranges::sort(scales);
  std::vector<simulator::Size> sizes;
  SimOptions one = options;
  one.out.clear();
  for (const double scale : scales) {
    one.scale = scale;
    simulator::Size size{.scale = scale, .cluster = {}, .reports = {}};
    auto reports =
        reports_of(one, contestants, " scale " + number_text(scale), size.cluster, console);
    if (!reports) return reports.error();
    size.reports = *std::move(reports);
    sizes.push_back(std::move(size));
  }
  if (!options.out.empty()) ES_RETURN_IF_ERROR(write_sweep(options, sizes));
  console.out << (options.json ? sweep_json(sizes) + "\n" : sweep_text(sizes));
  return 0;
}

}  // namespace es::actors::esctl
