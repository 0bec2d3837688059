#include "actors/views/sim_view.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using simulator::Group;
using simulator::GroupKind;
using simulator::Guarantee;
using simulator::Report;

// Lists of groups by their kind; a kind that the trace does not have is an empty list.
nlohmann::ordered_json groups_object(const std::vector<Group>& groups) {
  nlohmann::ordered_json object = {{"queue", nlohmann::ordered_json::array()},
                                   {"tenant", nlohmann::ordered_json::array()},
                                   {"model", nlohmann::ordered_json::array()},
                                   {"type", nlohmann::ordered_json::array()}};
  for (const Group& group : groups)
    object[kind_name(group.kind)].push_back({{"name", group.name},
                                             {"jobs", group.jobs},
                                             {"unfinished", group.unfinished},
                                             {"avg_wait_s", group.avg_wait_s},
                                             {"p95_wait_s", group.p95_wait_s},
                                             {"avg_jct_s", group.avg_jct_s},
                                             {"p95_jct_s", group.p95_jct_s},
                                             {"device_hours", group.device_hours},
                                             {"devices_mean", group.devices_mean},
                                             {"devices_most", group.devices_most}});
  return object;
}

nlohmann::ordered_json guarantees_object(const std::vector<Guarantee>& guarantees) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Guarantee& guarantee : guarantees) {
    nlohmann::ordered_json waits = nlohmann::ordered_json::array();
    for (const Guarantee::Wait& wait : guarantee.waits)
      waits.push_back({{"from_s", wait.from_s},
                       {"seconds", wait.until_s - wait.from_s},
                       {"jobs", wait.jobs},
                       {"first_job", wait.first_job}});
    list.push_back({{"queue", guarantee.queue},
                    {"kept", guarantee.waits.empty()},
                    {"waited_s", guarantee.waited_s()},
                    {"waits", std::move(waits)}});
  }
  return list;
}

}  // namespace

nlohmann::ordered_json report_object(const Report& r) {
  return {{"policy", r.policy},
          {"jobs", r.jobs},
          {"unfinished", r.unfinished},
          {"timed_out", r.timed_out},
          {"over_budget", r.over_budget},
          {"late", r.late},
          {"cost", r.cost},
          {"avg_jct_s", r.avg_jct_s},
          {"p50_jct_s", r.p50_jct_s},
          {"p99_jct_s", r.p99_jct_s},
          {"avg_queue_s", r.avg_queue_s},
          {"makespan_s", r.makespan_s},
          {"avg_jct_bound_s", r.avg_jct_bound_s},
          {"makespan_bound_s", r.makespan_bound_s},
          {"devices_held_mean", r.devices_held_mean},
          {"devices_computing_mean", r.devices_computing_mean},
          {"many_nodes_share", r.many_nodes_share},
          {"many_racks_share", r.many_racks_share},
          {"rescales", r.rescales},
          {"rescale_seconds", r.rescale_seconds},
          {"scale_ins", r.scale_ins},
          {"worst_rho", r.worst_rho},
          {"mean_rho", r.mean_rho},
          {"unfair_share", r.unfair_share},
          {"node_failures", r.failures},
          {"stragglers", r.stragglers},
          {"lost_work_seconds", r.lost_work_seconds},
          {"refused_requests", r.refused_requests},
          {"events", r.events},
          {"wall_seconds", r.wall_seconds},
          {"decisions", r.decisions},
          {"decision_ms_mean", r.decision_ms_mean},
          {"decision_ms_p99", r.decision_ms_p99},
          {"decision_ms_max", r.decision_ms_max},
          {"history_hash", r.history_hash},
          {"groups", groups_object(r.groups)},
          {"guarantees", guarantees_object(r.guarantees)}};
}

std::string report_json(const Report& report) {
  return json_text(report_object(report));
}

std::string reports_json(const std::vector<Report>& reports) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Report& report : reports) list.push_back(report_object(report));
  return json_text({{"policies", list}});
}

std::string reports_text(const std::vector<Report>& reports) {
  char line[256];
  std::snprintf(line, sizeof line, "%-14s %7s %10s %10s %10s %10s %10s %8s %9s %9s %7s %7s %9s\n",
                "policy", "jobs", "avg JCT s", "p50 s", "p99 s", "queue s", "makespan s", "held",
                "computing", "rescales", "rho", "worst", "decide ms");
  std::string text = line;
  for (const Report& r : reports) {
    std::snprintf(
        line, sizeof line,
        "%-14s %7zu %10.1f %10.1f %10.1f %10.1f %10.1f %8.1f %9.1f %9llu %7.2f %7.2f %9.3f\n",
        r.policy.c_str(), r.jobs, r.avg_jct_s, r.p50_jct_s, r.p99_jct_s, r.avg_queue_s,
        r.makespan_s, r.devices_held_mean, r.devices_computing_mean,
        static_cast<unsigned long long>(r.rescales), r.mean_rho, r.worst_rho, r.decision_ms_mean);
    text += line;
    if (r.unfinished > 0) text += "  " + counted(r.unfinished, "job") + " did not end\n";
    if (r.timed_out > 0) text += "  " + counted(r.timed_out, "job") + " stopped by a time limit\n";
    if (r.cost > 0) text += "  the devices of the jobs have cost " + fixed(r.cost, 2) + "\n";
    if (r.late > 0) text += "  " + counted(r.late, "job") + " ended after its deadline\n";
    if (r.over_budget > 0)
      text += "  " + counted(r.over_budget, "job") + " paused because the budget was used up\n";
    if (r.many_racks_share > 0)
      text += "  " + fixed(100 * r.many_racks_share, 1) +
              " % of the computing time of devices was in jobs in several racks, and " +
              fixed(100 * r.many_nodes_share, 1) + " % in jobs on several nodes\n";
    for (const Guarantee& guarantee : r.guarantees) text += "  " + guarantee_text(guarantee) + "\n";
    if (r.failures == 0 && r.stragglers == 0) continue;
    text += "  nodes were lost " + counted(r.failures, "time") + ", which cost " +
            fixed(r.lost_work_seconds, 1) + " s of training; devices were slow " +
            counted(r.stragglers, "time") + "\n";
  }
  return text;
}

std::string groups_text(const Report& report) {
  constexpr std::size_t kMost = 12;  // of a kind; more are for --json and --out
  std::string text;
  for (const GroupKind kind :
       {GroupKind::kQueue, GroupKind::kTenant, GroupKind::kModel, GroupKind::kType}) {
    std::vector<Group> groups;
    std::ranges::copy_if(report.groups, std::back_inserter(groups),
                         [&](const Group& group) { return group.kind == kind; });
    if (groups.size() < 2 || groups.size() > kMost) continue;
    char line[256];
    std::snprintf(line, sizeof line, "\n%-14s %7s %10s %10s %10s %10s %8s %8s\n", kind_name(kind),
                  "jobs", "queue s", "p95 s", "avg JCT s", "p95 s", "held", "most");
    text += line;
    for (const Group& group : groups) {
      std::snprintf(line, sizeof line, "%-14s %7zu %10.1f %10.1f %10.1f %10.1f %8.1f %8.0f\n",
                    group.name.empty() ? "-" : group.name.c_str(), group.jobs, group.avg_wait_s,
                    group.p95_wait_s, group.avg_jct_s, group.p95_jct_s, group.devices_mean,
                    group.devices_most);
      text += line;
    }
  }
  return text;
}

std::string guarantee_text(const Guarantee& guarantee) {
  const std::string queue = "queue " + guarantee.queue;
  if (guarantee.waits.empty()) return queue + " always had its guarantee when its jobs wanted it";
  const auto longest = std::ranges::max_element(
      guarantee.waits, {}, [](const auto& wait) { return wait.until_s - wait.from_s; });
  return queue + " waited " + counted(guarantee.waits.size(), "time") +
         " for devices of its guarantee, " + fixed(guarantee.waited_s(), 0) +
         " s in all; the longest time was " + fixed(longest->until_s - longest->from_s, 0) +
         " s from " + fixed(longest->from_s, 0) + " s on, first job " + longest->first_job;
}

}  // namespace es::actors
