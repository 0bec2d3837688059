// The metrics by which a job decides.
#include <algorithm>
#include <limits>
#include <utility>

#include "store/dataset/captured_inputs.h"
#include "store/metrics/metric.h"

namespace es::store {
namespace {

bool has_name(const NamedMetric& metric, const std::string& name) {
  return metric.name == name || (metric.name == "top1" && name == "accuracy");
}

// Those of an evaluation of this job, with the names that users see.
std::string names_of(const std::vector<NamedMetric>& metrics) {
  std::string names;
  for (const NamedMetric& metric : metrics)
    names += (names.empty() ? "" : ", ") + (metric.name == "top1" ? "accuracy" : metric.name);
  return names;
}

}  // namespace

double metric_value(const std::vector<NamedMetric>& metrics, const std::string& name) {
  const auto found = std::ranges::find_if(
      metrics, [&](const NamedMetric& metric) { return has_name(metric, name); });
  return found == metrics.end() ? std::numeric_limits<double>::quiet_NaN() : found->value;
}

Status check_decisions(const JobSpec& spec, const CapturedInputs* inputs,
                       std::uint64_t eval_count) {
  const std::string plateau = spec.schedule.kind == "plateau" ? spec.schedule.metric : "";
  const bool labels = inputs != nullptr && inputs->predicts_label;
  const std::vector<NamedMetric> metrics =
      summarise(spec, {.sums = std::vector<double>(labels ? 1 : 0)});
  for (const auto& [field, metric] :
       {std::pair{"schedule.metric", &plateau}, std::pair{"stop.metric", &spec.stop.metric},
        std::pair{"checkpoint.keep_best", &spec.checkpoint.keep_best}}) {
    if (metric->empty()) continue;
    const std::string text = std::string("job: ") + field + " = \"" + *metric + "\": allowed is ";
    if (eval_count == 0)
      return usage_error(text + "none, because the data have no evaluation samples");
    const bool known =
        std::ranges::any_of(metrics, [&](const NamedMetric& m) { return has_name(m, *metric); });
    if (!known) return usage_error(text + names_of(metrics));
  }
  return {};
}

}  // namespace es::store
