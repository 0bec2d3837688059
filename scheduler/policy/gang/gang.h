#pragma once
// The policies without elastic scaling. A job runs on a gang, which is max_devices of one type, or
// not at all. It takes the type that its owner asked for if enough devices are left, otherwise the
// fastest type of which enough are left, and stays on that type while it runs.
//
//   fifo-serial    one job at a time, in submit order (YARN-CS as in the simulator of the paper)
//   fifo-gang      in submit order; the first job that does not fit blocks all later ones
//   fifo-backfill  in submit order; a job that does not fit is passed over
//   easy-backfill  EASY backfill: the first job that does not fit has a reservation of one type,
//                  from the time on at which enough devices of it will be free by the expected ends
//                  of jobs. A later job starts only if it ends before that time, or uses other
//                  devices than the reserved ones, so that it does not delay the first one
//   srtf           shortest remaining time first, by the known speed of the gang; an earlier job
//                  may suspend a later one, at any cost
//   las            least attained service first, in three queues as in Tiresias: below 1, below 10,
//                  and above 10 device-hours, each in submit order; suspends like srtf
//
// Higher priority comes first, and jobs within the part of their queue come before those that
// borrow. The fifo policies let a running job keep what it holds; only borrowed devices are called
// back.
//
// All policies look at every job in every decision. The exception is srtf, if there are no queues,
// no pinned jobs, no jobs that hold a part of a gang, and no jobs that can use several types: it
// looks at the jobs that changed or may change places (gang_queue.h).
#include "scheduler/policy/common/scan_mode.h"
#include "scheduler/policy/gang/gang_queue.h"

namespace es::scheduler {

struct GangRules {
  enum class Order { kSubmitted, kRemainingTime, kAttainedService };
  enum class Blocking { kSerial, kHeadOfLine, kReservation, kNone };
  Order order = Order::kSubmitted;
  Blocking blocking = Blocking::kNone;
  bool preempts = false;

  bool is_srtf() const {
    return order == Order::kRemainingTime && blocking == Blocking::kNone && preempts;
  }
};

class GangPolicy final : public Policy {
 public:
  explicit GangPolicy(const GangRules& rules, ScanMode scan_mode = ScanMode::kIndexed)
      : rules_(rules), has_queue_(rules.is_srtf() && scan_mode == ScanMode::kIndexed) {}
  Decisions decide(const ClusterView& view) override;
  StartsWith starts_with() const override { return StartsWith::kGang; }

 private:
  const GangRules rules_;
  const bool has_queue_;
  ClusterTable table_;
  GangQueue queue_;
};

}  // namespace es::scheduler
