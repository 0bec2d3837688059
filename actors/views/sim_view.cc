#include "actors/views/sim_view.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"

namespace es::actors {
namespace {

using simulator::Report;

nlohmann::ordered_json object(const Report& r) {
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
          {"history_hash", r.history_hash}};
}

}  // namespace

std::string report_json(const Report& report) {
  return json_text(object(report));
}

std::string reports_json(const std::vector<Report>& reports) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Report& report : reports) list.push_back(object(report));
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
    if (r.timed_out > 0) text += "  " + counted(r.timed_out, "job") + " ended by a time limit\n";
    if (r.cost > 0) text += "  the devices of the jobs have cost " + fixed(r.cost, 2) + "\n";
    if (r.late > 0) text += "  " + counted(r.late, "job") + " ended after its deadline\n";
    if (r.over_budget > 0)
      text += "  " + counted(r.over_budget, "job") + " paused because the budget was used up\n";
    if (r.many_racks_share > 0)
      text += "  " + fixed(100 * r.many_racks_share, 1) +
              " % of the computing time of devices was in jobs in several racks, and " +
              fixed(100 * r.many_nodes_share, 1) + " % in jobs on several nodes\n";
    if (r.failures == 0 && r.stragglers == 0) continue;
    text += "  nodes were lost " + counted(r.failures, "time") + ", which cost " +
            fixed(r.lost_work_seconds, 1) + " s of training; devices were slow " +
            counted(r.stragglers, "time") + "\n";
  }
  return text;
}

}  // namespace es::actors
