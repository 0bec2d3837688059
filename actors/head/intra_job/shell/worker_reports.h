#pragma once
// WorkerReports are the measurements of one job's workers (WorkerStats) as its users see them:
// totals of the whole job, and the newest values of each worker. One owner.
#include <cstdint>
#include <map>
#include <vector>

#include "actors/base/protocol/wire/job_view.h"
#include "proto/base/result.h"
#include "proto/messages.h"

namespace es::actors {

class WorkerReports {
 public:
  // Error (usage), and nothing is added: a value that is not finite would stay in sums and plans
  // for ever. Throws kj::Exception on malformed content, so call it inside visit().
  Status add(Incarnation worker, wire::WorkerStats::Reader r);
  // The worker has ended. The totals keep what it has reported.
  void forget(Incarnation worker);

  void put_into(JobView& view) const;
  // REQUIRES: view.incarnation is set.
  void put_into(WorkerView& view) const;

 private:
  struct Worker {
    std::uint64_t pid = 0;
    std::vector<double> est_seconds;  // newest local step of each rank
    double peak_rss_mib = 0;
    std::uint64_t sent_bytes = 0;
  };
  std::map<Incarnation, Worker> workers_;
  double peak_rss_mib_ = 0;
  // Sums over all workers.
  double compute_seconds_ = 0, switch_seconds_ = 0, wait_seconds_ = 0;
  std::uint64_t message_bytes_ = 0, shared_memory_bytes_ = 0, channel_bytes_ = 0;
};

}  // namespace es::actors
