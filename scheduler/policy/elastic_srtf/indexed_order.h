#pragma once
// IndexedOrder: the order of service, kept from one decision to the next.
//
// A job is looked at again when its row has changed, and at the time from which its place may be
// another one (index_bounds.h). So a decision costs the logarithm of the number of jobs for each of
// these jobs, and nothing for the others. The order equals that of FullScanOrder; only
// QueueEntry::improvable_types is set here in addition.
//
// Not thread-safe.
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "scheduler/policy/common/service_queue.h"
#include "scheduler/policy/elastic_srtf/backlog.h"
#include "scheduler/policy/elastic_srtf/index_bounds.h"
#include "scheduler/policy/elastic_srtf/service_order.h"

namespace es::scheduler {

class IndexedOrder final : public ServiceOrder {
 public:
  explicit IndexedOrder(double rho_max) { rules_.rho_max = rho_max; }

  void update(const ClusterTable& table) override;
  void arrange(const ClusterTable& table) override;

  std::size_t size() const override { return queue_.size(); }
  std::vector<QueueEntry> entries(std::size_t from, std::size_t to) const override {
    return queue_.entries(from, to);
  }
  std::size_t count_before(std::int64_t rank) const override { return queue_.count_before(rank); }
  std::vector<QueueEntry> fixed() const override;
  void visit_last(const std::function<bool(const QueueEntry&)>& visit) const override;
  const JobForecast& forecast(std::size_t slot) const override { return jobs_[slot].forecast; }
  const ClusterLoad& load() const override { return load_; }

  // The entries in blocks that can be passed.
  const ServiceQueue& queue() const { return queue_; }
  // Jobs in a pause that are not pinned: end of the pause, and slot. paused_devices() is what those
  // of them hold that are not in fixed(), by type.
  const std::set<std::pair<double, std::size_t>>& paused() const { return paused_; }
  const Counts& paused_devices() const { return paused_devices_; }

 private:
  struct Job {
    JobForecast forecast;
    Ranking ranking;  // valid while is_ranked
    Validity validity;
    Backlog::Part part;
    Counts held;
    double longest_s = 0;          // key in longest_; not less than alone_at()
    std::int64_t narrow_step = 0;  // key in narrow_; not less than the step of alone_at()
    bool is_present = false;
    bool is_ranked = false;
    bool is_due = false;  // in due_
  };
  using ByTime = std::set<std::pair<double, std::size_t>>;
  using ByStep = std::set<std::pair<std::int64_t, std::size_t>>;

  void write(const ClusterTable& table, std::size_t slot);
  void add_due(std::size_t slot);
  void find_due(const ClusterTable& table);
  void set_alarm(double time_s, std::size_t slot);
  void rank(const ClusterTable& table, std::size_t slot);
  void reindex(std::size_t slot, const Ranking& was, const Ranking& is);
  void reindex_class(std::size_t slot, const Ranking& was, const Ranking& is);
  void set_validity(std::size_t slot, const Validity& validity);
  void set_paused(const Job& job, std::size_t slot, bool is_paused);
  void find_horizon(const ClusterTable& table);
  void mark_critical(const ClusterTable& table);
  // The time at which the next waiting job may become critical.
  void find_next_critical(const ClusterTable& table);

  RankingRules rules_;
  std::vector<Job> jobs_;         // by slot
  std::vector<std::size_t> due_;  // slots of jobs to rank anew
  ServiceQueue queue_;
  std::size_t types_ = 0;
  double now_s_ = 0;
  // A heap of times at which slots may have to be ranked anew, the first one in front. An entry
  // counts only if it is the until_s of its slot.
  std::vector<std::pair<double, std::size_t>> alarms_;
  ByTime by_job_seconds_;  // by until_job_seconds
  ByTime longest_;         // finite jobs
  ByTime ages_;            // by ages_s, of jobs that have one
  ByTime aged_waiting_;    // by aged_wait_s, of jobs that have one
  ByStep critical_;        // by alone_step
  ByStep narrow_;          // may become critical
  ByStep waiting_narrow_;  // those of narrow_ that hold nothing, by alone_step
  std::set<std::size_t> fixed_;
  ByTime paused_;
  Counts paused_devices_;
  std::size_t waiting_ = 0;  // jobs that wait, and do not age soon
  Backlogs backlogs_;
  ClusterLoad load_;
};

}  // namespace es::scheduler
