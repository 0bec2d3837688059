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
//                  below 10, and above 10 device-hours, each in submit order; suspends like srtf
//
// Higher priority comes first, jobs within the quota of their tenant come before those that borrow.
// The fifo policies let a job that runs keep what it holds; only borrowed devices are called back.
//
// Cost: all look at every job in every decision; srtf only where there are quotas, or jobs that are
// pinned or hold a part of a gang, and else at those that changed or may change places
// (gang_queue.h).
#include "scheduler/policy/gang_queue.h"

namespace es::scheduler {

struct GangRules {
  enum class Order { kSubmitted, kRemainingTime, kAttainedService };
  enum class Blocking { kSerial, kHeadOfLine, kNone };
  Order order = Order::kSubmitted;
  Blocking blocking = Blocking::kNone;
  bool preempts = false;

  bool is_srtf() const {
    return order == Order::kRemainingTime && blocking == Blocking::kNone && preempts;
  }
};

class GangPolicy final : public Policy {
 public:
  // kAll: every job is looked at in every decision, which decides the same (tests compare).
  enum class Pass : std::uint8_t { kChanged, kAll };
  explicit GangPolicy(const GangRules& rules, Pass pass = Pass::kChanged)
      : rules_(rules), has_queue_(rules.is_srtf() && pass == Pass::kChanged) {}
  Decisions decide(const ClusterView& view) override;

 private:
  const GangRules rules_;
  const bool has_queue_;
  Board board_;
  GangQueue queue_;
};

}  // namespace es::scheduler
