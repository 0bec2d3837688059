#pragma once
// QueueUsage: what the queues of the cluster have used, between ClusterCore and the journal.
//
// Ownership: it uses the journal, the waiting writes and the decisions. Used by one actor.
#include <string>
#include <utility>
#include <vector>

#include "actors/head/cluster_scheduler/shell/cluster_clock.h"
#include "actors/head/cluster_scheduler/shell/decisions.h"
#include "actors/head/cluster_scheduler/shell/durable_writes.h"
#include "actors/head/head_store.h"

namespace es::actors {

class QueueUsage {
 public:
  QueueUsage(HeadStore& store, DurableWrites& writes, Decisions& decisions, ClusterClock clock)
      : journal_(store.usage()), writes_(writes), decisions_(decisions), clock_(std::move(clock)) {}

  // Called before any job is restored, so that the first decision knows it. Error: the journal
  // cannot be read.
  Status restore();
  // Device-seconds by queue. What cannot be written now is written with the next change.
  void save(const std::vector<std::pair<std::string, double>>& usage);

 private:
  store::UsageJournal& journal_;
  DurableWrites& writes_;
  Decisions& decisions_;
  const ClusterClock clock_;
};

}  // namespace es::actors
