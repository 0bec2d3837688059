#pragma once
// elastic-srtf, the default policy: smallest remaining work first, elastic. It shrinks, moves and
// suspends running jobs if that pays for the measured pause. README.md explains it with an example.
//
// For a job j, with C_ij local steps per second on type i and N_i devices of it in the cluster:
//
//   alone_j = remaining steps / speed with its best devices          seconds, if it had them now
//   width_j = what these devices compute / sum_i N_i * C_ij          part of the devices that it
//                                                                    may use, at most 1
//   work_j  = alone_j * width_j                                      seconds of all these devices
//   rho_j   = (age_j + alone_j) / (start + steps_j / fair_speed_j)   how late it would be (below)
//   H       = max(longest alone_j, largest W_T)                      how long all jobs will need
//   W_T     = sum of work_j * N_j / N_T over the jobs that can use no types outside of T, for each
//             set T of types that some job can use; N_j and N_T count the devices of these types
//
// The objective is to minimise the mean completion time, subject to:
//
//   (1) all present jobs end within (1 + kMakespanSlack) * H         makespan
//   (2) rho_j <= rho_max for every job                               fairness, no starvation
//   (3) as many deadlines as possible are met
//
// Jobs are served in this order. Each job gets the set of devices with which it ends first
// (choice.h), out of those that are left:
//
// 1. Higher priority.
// 2. Deadlines in danger (slack below a quarter of alone_j), the earliest first.
// 3. rho_j > rho_max, the greatest rho_j first. A job that waits ages into this class. The rho_j of
//    a job that holds devices counts for kHoldBonus more, so that jobs that are equally late do not
//    take turns. With `fairness` above 0.5 the rho_j of this class is the one of fair_order.h, with
//    the number of jobs until the end of job j in place of the one until now, turns of a bounded
//    length, and a lower bound; in a crowd with dear turns the class goes by deadlines.
// 4. The critical path: narrow jobs, whose best devices are at most the part kNarrow of the
//    cluster, with alone_j + pause_j >= kCriticalPart * H. Such a job cannot catch up later. It
//    becomes critical at the last moment, because until then other jobs end earlier by going first,
//    and n equal jobs on m devices then change places at most m times (McNaughton's wrap-around). A
//    job that holds devices counts for kHoldBonus more, so that critical jobs do not take turns.
// 5. The smallest (alone_j + start_j - pause_j) * width_j * share_j first. share_j is the part that
//    the devices which j may use are of all devices, so that jobs that are bound to types and jobs
//    that are not compare by the same devices. start_j is the cost of its first
//    start; pause_j, for jobs that run, is the cost of taking their devices away. The key is work
//    and not time: with near-linear speedups n short jobs with one device are worth more than one
//    job with n devices.
//
// Amounts within a class are compared in steps of 3 to 6 percent (log_step, job_forecast.h), and
// jobs on the same step by submit order. So running jobs that approach their end change places now
// and then, and not at every event.
//
// Jobs of unknown length follow those of class 5, the least attained service first, with rho_j =
// age_j / (start + steps done / fair_speed_j).
//
// Changes are charged (choice.h, full_scan_decision.h): a job gets other devices only if it then
// ends earlier by kPausesToGain of its pauses. A job whose devices have changed k times in its age
// a must also gain kPausesInInterval pauses in a time of a / k, unless it would end after (1 +
// kMakespanSlack) * H with what it holds: jobs that others often disturb do not grow again each
// time. In the last two classes it takes devices that other jobs hold only if that gains
// kPausesToTake pauses over what is idle. If nothing is idle, a waiting job counts on the devices
// of a job that ends within kPausesToWait pauses, one for each. The pause of a suspension is
// another one than that of a smaller change, and each job measures both (policy.h). A change that
// is free is charged like one of a second.
//
// A set of devices needs the efficiency kEfficient, except the smallest one that lets a waiting job
// run. A job whose communication is known (model/sync.h) is fastest with a less efficient set. With
// w = max_T sum of width_j * N_j / N_T it needs 0 if w <= 1, otherwise min(kEfficient,
// 1 / (1 + 1 / w^2)) in the last class and kHalfComputes before it. With an efficiency e it would
// have 2 * sqrt(e * (1 - e)) of its best speed if each device costs the same; if it would then end
// after H, it needs kHalfComputes too. In W_T its work is that with kEfficient, if its best devices
// have less, because in a crowded cluster it is given fewer. Of a job of which no communication is
// known, that of other jobs is expected (model/sync_prior.h).
//
// The types of T are scarce while W_T >= kScarcePart * H and the jobs that can use no types outside
// of T can use all of their devices. A job of the last class that can use others is given no more
// of them.
//
// The types of T are wanted while more jobs that can use no types outside of T hold nothing than
// devices of T are idle. A job of the last class that can use others is given no more devices of
// wanted types, unless it would then take more than 1 + max(kWorthLeaving, q) times as long, with
// q = such jobs / N_T.
//
// A job that may use several types but not mix them stays on the type on which it begins. It begins
// on no type on which it would end after H with the best devices of this type, unless it takes at
// most kSlowType * alone_j there. Only devices that are in use or free, and within its queue,
// count.
//
// While no job runs, none leaves scarce types, and none waits for a faster type: nothing would end
// the wait.
//
// To keep (1), a projection without arrivals (projection.h) finds the job that is not narrow and
// would end last, for each set of types T. That job moves forward, only as far as needed, and never
// before the first three classes, so that (1) cannot violate (2). If this cannot reach (1 +
// kGuaranteeSlack) * H, because two wide jobs are both last, one of them is guaranteed the part of
// its devices that it needs (makespan.h).
//
// The option `fairness` gives rho_max = 0.9 + 0.1 * 121^(1 - fairness): 13 at 0 (which only
// prevents starvation), 2 at 0.5 (the default) and 1 at 1. rho_j compares with a 1/n share of the
// cluster, where n is the mean number of jobs since j was submitted:
//
//   fair_speed_j = min(speed with its best devices, sum_i N_i * C_ij / n)
//
// With queues, a first pass in the same order gives every job what its queue is entitled to and
// does not use yet. A second pass distributes the rest up to the limits of the queues, so that
// queues get lent devices back.
//
// A job in a pause (starting, rescaling) keeps its devices until the pause is over, so that two
// events do not undo each other's work; only pinned jobs take such devices away. A job that needs
// more devices at once than are left because of that reserves the others until then.
//
// The definition in code is ranking.h (the class and key of a job), full_scan_order.h (the order),
// makespan.h (condition 1) and full_scan_decision.h (which job gets which devices). It looks at
// every job in every decision, as the fair end does (fair_order.h). Otherwise the product decides
// the same with an index (indexed_order.h) that knows which jobs may have changed places, and with
// a walk (indexed_decision.h) that passes in blocks the jobs that surely keep what they hold.
//
// The cost with the index is the logarithm of the number of jobs for each job that may have changed
// places, or may get other devices. The projection covers at most 128 jobs (those before them count
// as one), and is made only if it is not certain that all are in time. With queues, or if paused
// jobs cannot keep what they hold, or with fairness above 0.5 and at most 4,096 jobs, one pass over
// all jobs is made. Every decision looks at jobs of unknown length, at jobs with a deadline in
// danger, and at waiting jobs that will age soon. While a job that has aged waits, the policy wants
// to be asked again when its rho may have grown by a step.
#include "scheduler/policy/common/scan_mode.h"
#include "scheduler/policy/elastic_srtf/fair_order.h"
#include "scheduler/policy/elastic_srtf/indexed_decision.h"

namespace es::scheduler {

class ElasticSrtf final : public Policy {
 public:
  // `fairness` is in [0, 1].
  explicit ElasticSrtf(double fairness, ScanMode scan_mode = ScanMode::kIndexed);
  Decisions decide(const ClusterView& view) override;
  bool expects_sync() const override { return true; }

 private:
  template <class Decision, class Order>
  Decisions decide_with(Order& order);

  const ScanMode scan_mode_;
  const bool is_fair_;
  // A change that is free is charged like one of a second. Otherwise jobs would change places for a
  // gain of nothing.
  ClusterTable table_{{.expects_sync = true, .pause_min_s = 1}};
  FullScanOrder full_scan_order_;
  FairOrder fair_order_;
  IndexedOrder indexed_order_;
  DecisionMemory memory_;
};

}  // namespace es::scheduler
