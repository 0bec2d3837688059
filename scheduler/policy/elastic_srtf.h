#pragma once
// elastic-srtf: smallest remaining work first, elastic; the default. It shrinks, moves and suspends
// running jobs when that pays for the pause, measured.
//
// For a job j, with C_ij local steps per second on type i and N_i devices of it in the cluster:
//
//   alone_j = remaining steps / speed with its best devices          seconds, if it had them now
//   width_j = that speed / sum_i N_i * C_ij                          part of the cluster, at most 1
//   work_j  = alone_j * width_j                                      seconds of the whole cluster
//   rho_j   = (age_j + alone_j) / (start + steps_j / fair_speed_j)   how late it would be (below)
//   H       = max(longest alone_j, sum of work_j)                    no schedule is done sooner
//
// Objective: minimize the mean completion time, subject to
//
//   (1) everything that is there done by (1 + 0.03) * H              makespan
//   (2) rho_j <= rho_max for every job                               fairness, no starvation
//   (3) deadlines, as many as can be met
//
// Jobs are served in this order, each with the set of devices with which it is done first
// (choice.h), out of those that are left:
//
//   1. higher priority
//   2. deadlines that are in danger (slack below a quarter of alone_j), the earliest first
//   3. rho_j > rho_max, the greatest rho_j first: a job that waits ages into this class
//   4. alone_j >= 0.9 * H for a narrow job (width_j <= 1/8): the critical path. Others lose little
//      by it, and it can never catch up
//   5. the smallest (alone_j + start_j - pause_j) * width_j first. start_j: what its first start
//      will cost; pause_j, for jobs that run: what taking their devices away would cost. Work, not
//      time: with near-linear speedups n short jobs of one device are worth more than one job of n
//
// Amounts within a class are compared by steps of 3 to 6 percent (step_of, service_line.h), and
// jobs on the same step by submit order: running jobs that come closer to their end change places
// now and then, and not at every event.
//
// Jobs of unknown length come after those of class 5, the least attained service first, with rho_j
// = age_j / (start + steps done / fair_speed_j).
//
// Then (1): by a projection without arrivals (outlook.h) the job that would be done last moves
// forward, only as far as needed, and never before the first two classes or a job with
// rho_j > 2 * rho_max, so that (1) cannot break (2) by more than that factor. When that cannot help
// within 1.25 * H, because two wide jobs are both last, one of them gets a claim on the part of its
// devices that it needs.
//
// The knob: rho_max = 1 + 0.05 * 400^(1 - fairness), from 21 at the fast end (0: only against
// starvation) over 2 (0.5, the default) to 1.05 at the fair end (1). rho_j compares with a 1/n
// share of the cluster, n being the mean number of jobs since j was submitted:
//
//   fair_speed_j = min(speed with its best devices, sum_i N_i * C_ij / n)
//
// Tenants with quotas: a first pass in the same order lets every job have what its tenant owns and
// does not use yet; a second one shares out what is left, so that owners get lent devices back.
//
// A job in a pause (starting, rescaling) keeps its devices until the pause is over, so that no two
// events undo each other's work; only pinned jobs take them away. A job that needs more devices at
// once than are left because of that keeps the others back for itself until then.
//
// Cost: the logarithm of the number of jobs for each job that may have changed places, or may get
// other devices (choice.h); jobs that surely keep what they hold are passed over by blocks
// (place_list.h). The projection is over at most 128 jobs (those before them count as one), where
// it is not sure that all are in time. With quotas, or when paused jobs cannot keep what they hold,
// one pass over all jobs. Jobs of unknown length, with a deadline in danger, and such that wait and
// will age soon are looked at in every decision.
#include "scheduler/policy/board.h"
#include "scheduler/policy/service_order.h"
#include "scheduler/policy/targets.h"

namespace es::scheduler {

class ElasticSrtf final : public Policy {
 public:
  // kAll: every job is looked at in every decision, which decides the same (tests compare).
  enum class Pass : std::uint8_t { kChanged, kAll };
  // `fairness` in [0, 1].
  explicit ElasticSrtf(double fairness, Pass pass = Pass::kChanged);
  Decisions decide(const ClusterView& view) override;

  enum class Served : std::uint8_t {
    kNot,    // no target yet
    kSome,   // a target, which may still change
    kKeeps,  // what it holds, for certain
  };
  // Reused from one decision to the next, for speed.
  struct Scratch {
    Targets targets;
    std::vector<Served> served;       // by slot
    std::vector<std::size_t> marked;  // slots of those that may not be kNot
  };

 private:
  Board board_;
  ServiceOrder jobs_;
  Scratch scratch_;
  const Pass pass_;
};

}  // namespace es::scheduler
