#pragma once
// FullScanOrder: the order of service, by ranking and sorting all jobs. It is the definition of the
// order, and the oracle of IndexedOrder. The cost of a decision is n * log(n) for n jobs.
#include "scheduler/policy/elastic_srtf/ranking.h"
#include "scheduler/policy/elastic_srtf/service_order.h"

namespace es::scheduler {

class FullScanOrder : public ServiceOrder {
 public:
  explicit FullScanOrder(double rho_max) { rules_.rho_max = rho_max; }

  void update(const ClusterTable&) override {}
  void arrange(const ClusterTable& table) override;

  std::size_t size() const override { return entries_.size(); }
  std::vector<QueueEntry> entries(std::size_t from, std::size_t to) const override;
  std::size_t count_before(std::int64_t rank) const override;
  std::vector<QueueEntry> fixed() const override;
  void visit_last(const std::function<bool(const QueueEntry&)>& visit) const override;
  const JobForecast& forecast(std::size_t slot) const override { return forecasts_[slot]; }
  const ClusterLoad& load() const override { return load_; }

 protected:
  // Called once in each arrange(), when all forecasts are written and no job is ranked.
  virtual void begin_ranking(const ClusterTable&) {}
  virtual Ranking rank(const JobForecast& forecast, const ClusterTable& table) const {
    return rank_job(forecast, table, rules_);
  }

  RankingRules rules_;
  std::vector<JobForecast> forecasts_;  // by slot; number 0 and unknown for a slot without a job
  ClusterLoad load_;

 private:
  void add_up(const ClusterTable& table);

  std::vector<QueueEntry> entries_;  // in the order of service
};

}  // namespace es::scheduler
