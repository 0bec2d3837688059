#pragma once
// IndexedDecision decides the same as FullScanDecision, and does not look at jobs that surely keep
// what they hold. Such jobs are passed in blocks (service_queue.h), and single jobs by bounds of
// what they could be given (choice.h).
//
// With queues, or if paused jobs cannot keep what they hold, it looks at every job too.
#include "scheduler/policy/elastic_srtf/full_scan_decision.h"
#include "scheduler/policy/elastic_srtf/indexed_order.h"

namespace es::scheduler {

class IndexedDecision final : public FullScanDecision {
 public:
  // `order` is arranged as of the table's time.
  IndexedDecision(const ClusterTable& table, const IndexedOrder& order, DecisionMemory& memory);

 protected:
  void keep_paused_jobs() override;
  void serve_in_order() override;
  void serve(const QueueEntry& entry) override;
  bool is_kept(const QueueEntry& entry) const override;

 private:
  bool keep_all_paused();
  void serve_block(const ServiceQueue::Block& block, std::size_t first, std::size_t position);
  bool pass(const ServiceQueue::Block& block);
  std::uint64_t types_left() const;

  const IndexedOrder& order_;
  bool looks_at_all_;
};

}  // namespace es::scheduler
