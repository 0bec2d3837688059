#include "actors/esctl/commands/sim_parts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "actors/views/render_text.h"
#include "proto/base/number_text.h"

namespace es::actors::esctl {
namespace {

// Prints a line every few seconds; on a terminal it replaces the previous one.
class ProgressLine {
 public:
  explicit ProgressLine(Console& console)
      : console_(console), is_terminal_(console.err_columns() > 0) {}
  ~ProgressLine() {
    if (is_terminal_ && shown_) console_.err << "\r\033[K" << std::flush;
  }
  void show(const std::string& policy, std::size_t done, std::size_t all, double seconds) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < (is_terminal_ ? kOnTerminal : kInLog)) return;
    last_ = now;
    shown_ = true;
    console_.err << (is_terminal_ ? "\r\033[K" : "") << policy << ": " << done << " of "
                 << counted(all, "job") << " done, day " << static_cast<long>(seconds / 86400)
                 << (is_terminal_ ? "" : "\n") << std::flush;
  }

 private:
  static constexpr std::chrono::milliseconds kOnTerminal{500}, kInLog{5000};
  Console& console_;
  const bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

simulator::SimulationOptions simulation_of(const Scene& scene, const SimOptions& options,
                                           const Contestant& contestant) {
  simulator::SimulationOptions simulation{.policy = contestant.policy,
                                          .policy_options = contestant.options,
                                          .queues = scene.queues,
                                          .share_half_life_s = options.half_life_hours * 3600,
                                          .round_s = options.round_s,
                                          .checkpoint_s = options.checkpoint_s,
                                          .knowledge = options.knowledge,
                                          .world = scene.world,
                                          .progress = {}};
  simulation.knowledge.seed = scene.world.seed;
  simulation.explains_waits = !options.out.empty();
  return simulation;
}

// What queues may expect under this policy.
simulator::GuaranteeRules guarantee_rules(const Scene& scene, const Contestant& contestant) {
  // A device that another job gives back is ready after a step and these changes.
  const simulator::WorldOptions& world = scene.world;
  const auto policy = scheduler::make_policy(contestant.policy, contestant.options);
  return {.queues = scene.queues,
          .claims = world.claims,
          .starts_with = (*policy)->starts_with(),
          .pause_s = std::max({1.0, world.start_s, world.rescale_s, world.suspend_cost_s()})};
}

}  // namespace

std::vector<Contestant> contestants_of(const std::vector<std::string>& policies,
                                       const SimOptions& options) {
  std::vector<Contestant> contestants;
  for (const std::string& policy : policies) {
    const auto infos = scheduler::policies();
    const bool has_knob = std::any_of(infos.begin(), infos.end(), [&](const auto& info) {
      return info.name == policy && info.has_fairness;
    });
    for (const double fairness : options.fairness) {
      const bool one = !has_knob || options.fairness.size() == 1;
      contestants.push_back({policy,
                             {.fairness = fairness, .homogeneous = options.homogeneous},
                             one ? "" : number_text(fairness)});
      if (one) break;
    }
  }
  return contestants;
}

Status check_contestants(const std::vector<Contestant>& contestants, const Scene& scene) {
  for (const Contestant& c : contestants) {
    if (const auto known = scheduler::make_policy(c.policy, c.options); !known)
      return known.error();
    ES_RETURN_IF_ERROR(scheduler::check_queues(c.policy, scene.queues));
  }
  return {};
}

Result<SimRun> run_contestant(const Scene& scene, const SimOptions& options,
                              const Contestant& contestant, const std::string& label,
                              Console& console) {
  ProgressLine line(console);
  simulator::SimulationOptions simulation = simulation_of(scene, options, contestant);
  simulation.progress = [&](std::size_t done, std::size_t all, double seconds) {
    line.show(label, done, all, seconds);
  };
  auto result = simulator::simulate(scene.workload, simulation);
  if (!result) return result.error();
  result->policy = label;
  if (result->refused > 0)
    console.err << label << ": the head refused " << counted(result->refused, "request")
                << ", the first: " << result->first_refusal << "\n";
  simulator::Report report = simulator::make_report(scene.workload, *result, scene.world.start_s,
                                                    guarantee_rules(scene, contestant));
  return SimRun{*std::move(result), std::move(report)};
}

}  // namespace es::actors::esctl
