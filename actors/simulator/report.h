#pragma once
// Report: the figures of a simulation. Pure.
//
//   JCT              job completion time: from submission to the last step
//   queue            time between them in which a job held no device at all
//   makespan         end of the last job, from the begin of the trace
//   devices held     by jobs, the mean over the makespan: their processes are there
//   ... computing    of these, those on which a job steps: not one that starts or rescales
//   rescales         changes of a job's devices after its first start; rescale seconds: the time in
//                    which it held devices and stood still for one
//   scale-ins        of them, those that left it with fewer devices, and each time that it was
//                    suspended: preemptions
//   lost work        seconds of training that failures of nodes made vain: the step that a job was
//                    computing, and those that it has to do again from a checkpoint
//   rho              finish-time fairness (Themis): JCT / JCT alone on a 1/n share, n being the
//                    mean number of jobs in the cluster over its life, itself included. Alone on a
//                    share a job takes start + local steps / min(B, S / n), where B is its speed
//                    with the best devices there are and S the sum of the speeds of all devices of
//                    the cluster: no schedule is faster than either. rho > 1: sharing cost it more
//                    than its share
//   unfair share     the share of jobs with rho > 1
#include <string>

#include "actors/simulator/simulation.h"

namespace es::actors::simulator {

struct Report {
  std::string policy;
  std::size_t jobs = 0;  // that ended; the figures are of these
  std::uint32_t unfinished = 0;
  double avg_jct_s = 0, p50_jct_s = 0, p99_jct_s = 0;
  double avg_queue_s = 0;
  double makespan_s = 0;
  double devices_held_mean = 0, devices_computing_mean = 0;
  std::uint64_t rescales = 0;
  double rescale_seconds = 0;
  std::uint64_t scale_ins = 0;
  double worst_rho = 0, mean_rho = 0, unfair_share = 0;
  std::uint32_t failures = 0;    // of nodes
  std::uint32_t stragglers = 0;  // times that a device became slow
  double lost_work_seconds = 0;
  std::uint32_t refused_requests = 0;
  std::uint64_t events = 0;
  double wall_seconds = 0;
  std::uint64_t decisions = 0;
  double decision_ms_mean = 0, decision_ms_p99 = 0, decision_ms_max = 0;  // of the processor
  std::string history_hash;                                               // 16 hexadecimal digits
};

Report make_report(const Workload& workload, const SimulationResult& result, double start_s);

// rho of a job that ended.
double fairness(const WorkJob& job, const JobResult& result, const DeviceSet& cluster,
                double start_s);

// Tables for other programs: one line for each job, and one for each change of the cluster.
std::string jobs_csv(const Workload& workload, const SimulationResult& result, double start_s);
std::string allocation_csv(const SimulationResult& result);

}  // namespace es::actors::simulator
