#pragma once
// World: a cluster in virtual time with jobs that follow the throughput model exactly, to study
// policies without actors. Devices change hands at once; what a change costs is a pause of the job.
//
//   first start     start_s seconds without progress
//   later changes   rescale_s seconds without progress each, whatever changed
//   progress        local steps at the throughput of the best plan on what the job holds; devices
//                   that this plan does not use, or that wait in a pause, are held but compute
//                   nothing
//
// Deterministic. Aborts when a policy breaks a rule (check_decisions), decides for ever at one
// instant, or leaves jobs waiting in an idle cluster.
#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/policy/common/policy.h"
#include "tests/scheduler/study/trace.h"

namespace es::study {

struct Rules {
  double start_s = 20;
  double rescale_s = 1;
  double round_s = 0;  // decide only at multiples of it; 0: at every event
  // Real proposals of role 2 (only easyscale reads more of them than the greatest count).
  bool real_proposals = false;
  std::vector<scheduler::Quota> quotas = {};
};

struct JobResult {
  JobId id;
  double submit_s = 0;
  double start_s = 0;  // when it was first given devices
  double end_s = 0;
  int rescales = 0;
  double pause_s = 0;  // seconds without progress although it held devices
  // Finish-time fairness: JCT / seconds that it would have taken with a 1/n share of the cluster, n
  // being the mean number of unfinished jobs during its life, itself included:
  //
  //   fair = start_s + steps / min(best speed, sum_i N_i * C_i / n)
  //
  // best speed: with the best devices that the whole cluster has.
  double rho = 0;
};

struct Report {
  std::vector<JobResult> jobs;  // in submit order
  double avg_jct_s = 0, p50_jct_s = 0, p99_jct_s = 0;
  double avg_queue_s = 0;     // from submit to first devices
  double makespan_s = 0;      // end of the last job, from time 0
  double held_mean = 0;       // devices, over the makespan
  double computing_mean = 0;  // devices that make steps
  double worst_rho = 0, mean_rho = 0;
  std::uint64_t rescales = 0;
  double pause_s = 0;
  std::uint64_t decisions = 0;
  double decision_ms_mean = 0, decision_ms_max = 0;  // real time
};

Report run(const Trace& trace, scheduler::Policy& policy, const Rules& rules);

}  // namespace es::study
