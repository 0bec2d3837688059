#include "actors/views/sim_view.h"

#include "actors/views/json_text.h"
#include "actors/views/render_text.h"
#include "proto/base/number_text.h"

namespace es::actors {
namespace {

using simulator::Repeats;
using simulator::RepeatSummary;
using simulator::Report;
using simulator::Size;
using simulator::Statistics;

nlohmann::ordered_json statistics_object(const Statistics& s) {
  return {{"mean", s.mean}, {"deviation", s.deviation}, {"least", s.least}, {"most", s.most}};
}

std::string mean_and_spread(const Statistics& s, int digits) {
  return fixed(s.mean, digits) + " ± " + fixed(s.deviation, digits);
}

std::string range_text(const Statistics& s) {
  return fixed(s.least, 1) + " to " + fixed(s.most, 1);
}

}  // namespace

std::string repeats_text(const std::vector<Repeats>& policies, const std::string& varies) {
  std::vector<std::vector<std::string>> rows{{"policy", "avg JCT s", "from, to", "p99 s", "queue s",
                                              "makespan s", "JCT / " + policies.front().policy}};
  std::string notes;
  for (const RepeatSummary& s : summaries_of(policies)) {
    rows.push_back({s.policy, mean_and_spread(s.avg_jct_s, 1), range_text(s.avg_jct_s),
                    mean_and_spread(s.p99_jct_s, 1), mean_and_spread(s.avg_queue_s, 1),
                    mean_and_spread(s.makespan_s, 1), mean_and_spread(s.jct_ratio, 3)});
    if (s.unfinished > 0)
      notes += "  " + s.policy + ": " + counted(s.unfinished, "job") + " did not end\n";
  }
  return table(rows) + notes + "Means and standard deviations of " +
         counted(policies.front().seeds.size(), "simulation") + " with the seeds " +
         std::to_string(policies.front().seeds.front()) + " to " +
         std::to_string(policies.front().seeds.back()) + ". They differ in " + varies + ".\n";
}

std::string repeats_json(const std::vector<Repeats>& policies, const std::string& varies) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const RepeatSummary& s : summaries_of(policies))
    list.push_back({{"policy", s.policy},
                    {"unfinished", s.unfinished},
                    {"avg_jct_s", statistics_object(s.avg_jct_s)},
                    {"p99_jct_s", statistics_object(s.p99_jct_s)},
                    {"avg_queue_s", statistics_object(s.avg_queue_s)},
                    {"makespan_s", statistics_object(s.makespan_s)},
                    {"jct_ratio", statistics_object(s.jct_ratio)}});
  return json_text({{"varies", varies}, {"seeds", policies.front().seeds}, {"policies", list}});
}

std::string enough_text(const std::vector<Size>& sizes, std::size_t policy) {
  const std::string name = sizes.front().reports[policy].policy;
  const auto enough = enough_devices(sizes, policy);
  if (!enough) return name + ": jobs did not end on the largest cluster, so no size is enough.";
  const std::string most = std::to_string(sizes.back().cluster.total()) + " devices";
  if (*enough == 0 || *enough + 1 < sizes.size())
    return name + ": from " + std::to_string(sizes[*enough].cluster.total()) + " devices on (" +
           sizes[*enough].cluster.text() +
           ") the mean completion time is at most 5 % longer than with " + most + ".";
  return name + ": already on " + std::to_string(sizes[*enough - 1].cluster.total()) +
         " devices the mean completion time is more than 5 % longer than with " + most +
         ", or jobs do not end.";
}

std::string sweep_text(const std::vector<Size>& sizes) {
  std::vector<std::vector<std::string>> rows{{"scale", "devices", "policy", "jobs", "avg JCT s",
                                              "p99 s", "queue s", "makespan s", "held %",
                                              "computing %"}};
  for (const Size& size : sizes)
    for (const Report& r : size.reports) {
      const double percent = 100.0 / size.cluster.total();
      rows.push_back({number_text(size.scale), std::to_string(size.cluster.total()), r.policy,
                      std::to_string(r.jobs), fixed(r.avg_jct_s, 1), fixed(r.p99_jct_s, 1),
                      fixed(r.avg_queue_s, 1), fixed(r.makespan_s, 1),
                      fixed(r.devices_held_mean * percent, 1),
                      fixed(r.devices_computing_mean * percent, 1)});
    }
  std::string text = table(rows);
  for (std::size_t p = 0; p < sizes.front().reports.size(); ++p)
    text += enough_text(sizes, p) + "\n";
  return text;
}

std::string sweep_json(const std::vector<Size>& sizes) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Size& size : sizes) {
    nlohmann::ordered_json reports = nlohmann::ordered_json::array();
    for (const Report& report : size.reports) reports.push_back(report_object(report));
    list.push_back({{"scale", size.scale},
                    {"cluster", size.cluster.text()},
                    {"devices", size.cluster.total()},
                    {"policies", std::move(reports)}});
  }
  nlohmann::ordered_json enough = nlohmann::ordered_json::array();
  for (std::size_t p = 0; p < sizes.front().reports.size(); ++p) {
    nlohmann::ordered_json devices;  // null: no size is enough
    if (const auto size = enough_devices(sizes, p)) devices = sizes[*size].cluster.total();
    enough.push_back({{"policy", sizes.front().reports[p].policy}, {"devices", devices}});
  }
  return json_text({{"sizes", list}, {"enough", enough}});
}

}  // namespace es::actors
