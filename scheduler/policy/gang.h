#pragma once
// The policies that do not scale jobs: each runs on its gang, max_devices of the type that was
// asked for (else its fastest), or not at all.
//
//   fifo-serial    one job at a time, in submit order (YARN-CS as the authors of the paper code it)
//   fifo-gang      in submit order; the first job that does not fit blocks those behind it
//   fifo-backfill  in submit order; a job that does not fit is passed over
//   srtf           shortest remaining time first, by the known speed of the gang; whoever comes
//                  first may suspend whoever comes later, at no matter what cost
//   las            least attained service first, in three queues as Tiresias has them: below 1,
//   below
//                  10, and above 10 device-hours, each in submit order; suspends like srtf
//
// Higher priority comes first, jobs within the quota of their tenant come before those that borrow.
// The fifo policies let a job that runs keep what it holds; only borrowed devices are called back.
#include "scheduler/policy/board.h"

namespace es::scheduler {

struct GangRules {
  enum class Order { kSubmitted, kRemainingTime, kAttainedService };
  enum class Blocking { kSerial, kHeadOfLine, kNone };
  Order order = Order::kSubmitted;
  Blocking blocking = Blocking::kNone;
  bool preempts = false;
};

class GangPolicy final : public Policy {
 public:
  explicit GangPolicy(const GangRules& rules) : rules_(rules) {}
  Decisions decide(const ClusterView& view) override;

 private:
  const GangRules rules_;
  Board board_;
};

}  // namespace es::scheduler
