#pragma once
// ServiceOrder is the order in which elastic-srtf serves its jobs (elastic_srtf.h defines it), and
// the sums over all jobs on which a decision depends.
//
// There are two versions with equal results. FullScanOrder ranks and sorts all jobs each time; it
// is the definition. IndexedOrder keeps the order from one decision to the next. Not thread-safe.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "scheduler/policy/common/queue_entry.h"
#include "scheduler/policy/elastic_srtf/backlog.h"
#include "scheduler/policy/elastic_srtf/job_forecast.h"

namespace es::scheduler {

struct ClusterLoad {
  double horizon_s = 0;  // no schedule ends before this time: H of elastic_srtf.h
  double backlog_s = 0;  // the largest backlog of a group
  std::vector<GroupLoad> groups;
  double again_s = kNeverS;  // when a waiting job may age
};

// The load while the longest job takes `longest_s` with its best devices.
ClusterLoad cluster_load(std::vector<GroupLoad> groups, double longest_s);

class ServiceOrder {
 public:
  virtual ~ServiceOrder() = default;

  // Reads the rows that the table wrote in its last update. REQUIRES: called after every update of
  // the table.
  virtual void update(const ClusterTable& table) = 0;
  // Puts all jobs in order, as of the table's time. REQUIRES: update() has read the table.
  virtual void arrange(const ClusterTable& table) = 0;

  // What follows is as of the last arrange().

  virtual std::size_t size() const = 0;
  // The entries at the positions `from` to `to` - 1. REQUIRES: from <= to <= size().
  virtual std::vector<QueueEntry> entries(std::size_t from, std::size_t to) const = 0;
  // Number of entries with a smaller QueueEntry::rank.
  virtual std::size_t count_before(std::int64_t rank) const = 0;
  // The jobs that are pinned, or keep their minimum, in the order of service.
  virtual std::vector<QueueEntry> fixed() const = 0;
  // Visits the jobs that may be left with fewer devices (QueueEntry::is_preemptible), from the last
  // one on, until `visit` returns false.
  virtual void visit_last(const std::function<bool(const QueueEntry&)>& visit) const = 0;
  virtual const JobForecast& forecast(std::size_t slot) const = 0;
  virtual const ClusterLoad& load() const = 0;
};

}  // namespace es::scheduler
