#include "scheduler/policy/elastic_srtf/elastic_srtf.h"

#include <cmath>
#include <utility>

#include "scheduler/policy/elastic_srtf/uncontended.h"

namespace es::scheduler {
namespace {

double rho_max(double fairness) {
  return 0.9 + 0.1 * std::pow(121.0, 1 - fairness);
}

}  // namespace

ElasticSrtf::ElasticSrtf(double fairness, ScanMode scan_mode)
    : scan_mode_(scan_mode),
      full_scan_order_(rho_max(fairness)),
      indexed_order_(rho_max(fairness)) {}

Decisions ElasticSrtf::decide(const ClusterView& view) {
  table_.update(view);
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
