#include "scheduler/policy/elastic_srtf/elastic_srtf.h"

#include <cmath>
#include <utility>

#include "scheduler/policy/elastic_srtf/uncontended.h"

namespace es::scheduler {
namespace {

// At the fair end a job that may not mix types does not begin on one on which it would be far later
// than with its best devices from now on.
class FairDecision final : public FullScanDecision {
 public:
  using FullScanDecision::FullScanDecision;

 protected:
  double slow_limit_s(const JobRow& row, double best_speed) const override {
    const double age_s = table_.now_s() - row.submit_s;
    return kSlowType * (age_s + table_.remaining(row) / best_speed) - age_s;
  }
  bool may_leave(const QueueEntry&) const override { return false; }
};

double rho_max(double fairness) {
  return 0.9 + 0.1 * std::pow(121.0, 1 - fairness);
}

}  // namespace

ElasticSrtf::ElasticSrtf(double fairness, ScanMode scan_mode)
    : scan_mode_(scan_mode),
      is_fair_(fairness > kFairFrom),
      full_scan_order_(rho_max(fairness)),
      fair_order_(rho_max(fairness)),
      indexed_order_(rho_max(fairness)) {}

Decisions ElasticSrtf::decide(const ClusterView& view) {
  table_.update(view);
  if (is_fair_ && table_.jobs() <= kFairJobsMax) {
    // The index reads every update, so that it is right when there are more jobs.
    if (scan_mode_ == ScanMode::kIndexed) indexed_order_.update(table_);
    return decide_with<FairDecision>(fair_order_);
  }
  return scan_mode_ == ScanMode::kIndexed ? decide_with<IndexedDecision>(indexed_order_)
                                          : decide_with<FullScanDecision>(full_scan_order_);
}

template <class Decision, class Order>
Decisions ElasticSrtf::decide_with(Order& order) {
  order.update(table_);
  if (!table_.has_queues())
    if (auto decisions = serve_uncontended(table_)) return std::move(*decisions);
  order.arrange(table_);
  return Decision(table_, order, memory_).run();
}

}  // namespace es::scheduler
