#include "actors/views/trackers/job_curves.h"

#include <numeric>

namespace es::actors {
namespace {

bool is_new(const LastSteps& last, const store::Scalar& point) {
  const auto at = last.find(point.tag);
  return at == last.end() || point.step > at->second;
}

}  // namespace

double mean_loss(const store::LedgerLine& line) {
  return std::accumulate(line.losses.begin(), line.losses.end(), 0.0) / double(line.losses.size());
}

std::vector<store::Scalar> points_after(const LastSteps& last,
                                        const std::vector<store::LedgerLine>& lines,
                                        const std::vector<EvaluationView>& evaluations) {
  std::vector<store::Scalar> points;
  const auto add = [&](store::Scalar point) {
    if (is_new(last, point)) points.push_back(std::move(point));
  };
  for (const store::LedgerLine& line : lines)
    if (!line.losses.empty()) add({kTrainLoss, line.version, static_cast<float>(mean_loss(line))});
  for (const EvaluationView& evaluation : evaluations)
    for (const MetricView& metric : evaluation.metrics)
      add({"eval/" + metric.name, evaluation.version, static_cast<float>(metric.value)});
  return points;
}

}  // namespace es::actors
