#include "actors/head/intra_job/shell/evaluation_views.h"

#include "store/metrics/metric.h"

namespace es::actors {

std::string EvaluationViews::add(Version version, std::span<const std::byte> bytes) {
  const std::string what = "evaluation of version " + std::to_string(version);
  const auto totals = store::MetricTotals::decode(bytes);
  if (!totals) return what + " cannot be read: " + totals.error().message;
  if (totals->samples == 0) return "";
  EvaluationView& view = views_[version];
  view = {version, totals->samples, {}};
  std::string text;
  if (totals->not_finite > 0)
    text = ": not finite: " + std::to_string(totals->not_finite) + " of " +
           std::to_string(totals->samples) +
           " samples have an output or a loss that is NaN or infinite";
  for (const store::NamedMetric& m : store::summarise(spec_, *totals)) {
    text += (text.empty() ? ": " : ", ") + m.name + " " + std::to_string(m.value);
    view.metrics.push_back({m.name, m.value});
  }
  return what + text;
}

std::vector<EvaluationView> EvaluationViews::all() const {
  std::vector<EvaluationView> all;
  for (const auto& [version, evaluation] : views_) all.push_back(evaluation);
  return all;
}

}  // namespace es::actors
