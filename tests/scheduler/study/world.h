#pragma once
// World is a cluster in virtual time with jobs that follow the throughput model exactly. It serves
// to study policies without actors. A device changes its job at once, and the cost of a change is a
// pause of the job.
//
//   first start     start_s seconds without progress
//   later changes   rescale_s seconds without progress for each change of any kind, suspend_s for
//                   the restart of a job that was left with nothing
//   types           a job that may not mix types stays on the type on which it begins
//   progress        local steps at the throughput of the best plan on the devices of the job;
//                   devices that this plan does not use, or that wait in a pause, are held but
//                   compute nothing; each device but one makes a step sync_s longer
//
// A World is deterministic. It aborts when a policy breaks a rule (check_decisions), decides
// forever at one time, or leaves jobs waiting in an idle cluster.
#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/policy/common/policy.h"
#include "tests/scheduler/study/trace.h"

namespace es::study {

struct Rules {
  double start_s = 20;
  double rescale_s = 1;
  double suspend_s = -1;  // Below 0: rescale_s.
  double sync_s = 0;      // Known to the jobs.
  double round_s = 0;     // Decide only at multiples of this time; 0: at every event.
  // Real proposals of role 2. Only easyscale reads more of them than the largest count.
  bool real_proposals = false;
  std::vector<scheduler::Queue> queues = {};
};

struct JobResult {
  JobId id;
  double submit_s = 0;
  double start_s = 0;  // When it was first given devices.
  double end_s = 0;
  int rescales = 0;
  double pause_s = 0;  // Seconds without progress during which it held devices.
  // Finish-time fairness: the JCT, divided by the seconds that the job would have taken with a 1/n
  // share of the cluster. Here n is the mean number of unfinished jobs during its life, including
  // itself.
  //
  //   fair = start_s + steps / min(best speed, sum_i N_i * C_i / n)
  //
  // The best speed is that with the best devices of the whole cluster.
  double rho = 0;
};

struct Report {
  std::vector<JobResult> jobs;  // In submit order.
  double avg_jct_s = 0, p50_jct_s = 0, p99_jct_s = 0;
  double avg_queue_s = 0;     // From the submission to the first devices.
  double makespan_s = 0;      // The end of the last job, counted from time 0.
  double held_mean = 0;       // Devices held, averaged over the makespan.
  double computing_mean = 0;  // Devices that make steps.
  double worst_rho = 0, mean_rho = 0;
  std::uint64_t rescales = 0;
  double pause_s = 0;
  std::uint64_t decisions = 0;
  double decision_ms_mean = 0, decision_ms_max = 0;  // Of processor time.
};

Report run(const Trace& trace, scheduler::Policy& policy, const Rules& rules);

}  // namespace es::study
