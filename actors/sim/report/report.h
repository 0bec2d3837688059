#pragma once
// Report: the figures of a simulation. Pure.
//
//   JCT              job completion time: from submission to the last step
//   queue            time in between in which a job held no device
//   makespan         end of the last job, from the begin of the trace
//   devices held     devices held by jobs, mean over the makespan; their processes exist
//   ... computing    those of them on which a job steps, without jobs that start or rescale
//   rescales         changes of a job's devices after its first start
//   rescale seconds  time in which a job held devices and stood still for a rescale
//   scale-ins        rescales to fewer devices, and suspensions: preemptions
//   lost work        seconds of training that failures of nodes made vain: the step that a job was
//                    computing, and the steps that it repeats from a checkpoint
//   rho              finish-time fairness (Themis): JCT / JCT alone on a 1/n share, where n is the
//                    mean number of jobs in the cluster over the job's life, including the job.
//                    Alone on a share a job takes start + local steps / min(B, S / n), where B is
//                    its speed with the best devices and S the sum of the speeds of all devices of
//                    the cluster; no schedule is faster than either. If rho > 1, sharing has cost
//                    the job more than its share
//   unfair share     the share of jobs with rho > 1
#include <string>

#include "actors/sim/report/groups.h"
#include "actors/sim/report/guarantees.h"
#include "actors/sim/shell/simulation.h"

namespace es::actors::simulator {

struct Report {
  std::string policy;
  // Jobs that made all their steps. Completion times and rho describe these; waits, costs, rescales
  // and the makespan describe all that ended.
  std::size_t jobs = 0;
  std::uint32_t unfinished = 0;
  std::uint32_t timed_out = 0;    // ended by their time limits, and not among `jobs`
  std::uint32_t over_budget = 0;  // paused because their budgets were used up, and not among `jobs`
  std::uint32_t late = 0;         // ended after their deadlines
  double cost = 0;                // what the devices of all jobs have cost
  double avg_jct_s = 0, p50_jct_s = 0, p99_jct_s = 0;
  double avg_queue_s = 0;
  double makespan_s = 0;
  // No schedule can have less (bounds.h).
  double avg_jct_bound_s = 0, makespan_bound_s = 0;
  double devices_held_mean = 0, devices_computing_mean = 0;
  // Parts of the time of devices that compute, for jobs on several nodes and in several racks.
  double many_nodes_share = 0, many_racks_share = 0;
  std::uint64_t rescales = 0;
  double rescale_seconds = 0;
  std::uint64_t scale_ins = 0;
  double worst_rho = 0, mean_rho = 0, unfair_share = 0;
  std::uint32_t failures = 0;    // losses of nodes
  std::uint32_t stragglers = 0;  // times that a device became slow
  double lost_work_seconds = 0;
  std::uint32_t refused_requests = 0;
  std::uint64_t events = 0;
  double wall_seconds = 0;
  std::uint64_t decisions = 0;
  double decision_ms_mean = 0, decision_ms_p99 = 0, decision_ms_max = 0;  // processor time
  std::string history_hash;                                               // 16 hexadecimal digits
  std::vector<Group> groups;
  std::vector<Guarantee> guarantees;
};

// Without the groups by queue and the guarantees if there are no queues.
Report make_report(const Workload& workload, const SimulationResult& result, double start_s,
                   const GuaranteeRules& rules = {});

// rho of a job that has ended.
double fairness(const WorkJob& job, const JobResult& result, const DeviceSet& cluster,
                double start_s);

// Tables for other programs: one line for each job, and one line for each change of the cluster.
std::string jobs_csv(const Workload& workload, const SimulationResult& result, double start_s);
std::string allocation_csv(const SimulationResult& result);

}  // namespace es::actors::simulator
