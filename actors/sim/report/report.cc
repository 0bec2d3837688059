#include "actors/sim/report/report.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "actors/sim/report/bounds.h"
#include "actors/sim/report/figures.h"
#include "proto/base/number_text.h"
#include "scheduler/policy/common/speed.h"

namespace es::actors::simulator {
namespace {

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

bool is_late(const ResourceSpec& resources, const JobResult& job) {
  return resources.deadline_seconds > 0 && job.end_s - job.submit_s > resources.deadline_seconds;
}

}  // namespace

double fairness(const WorkJob& job, const JobResult& result, const DeviceSet& cluster,
                double start_s) {
  std::vector<std::uint32_t> counts;
  std::vector<double> capabilities;
  double all = 0, best = 0;
  for (const auto& [type, steps_per_s] : job.capabilities) {
    const std::uint32_t count = std::min(cluster.count_of(type), job.spec.max_p);
    counts.push_back(count);
    capabilities.push_back(steps_per_s);
    all += cluster.count_of(type) * steps_per_s;
    if (count > 0)
      best = std::max(best, scheduler::one_type_speed(job.spec.max_p, count, steps_per_s));
  }
  if (job.spec.level == DeterminismLevel::kD2)
    best = std::max(best, scheduler::mixed_speed(job.spec.max_p, counts, capabilities));
  const double jct_s = result.end_s - result.submit_s;
  // The mean number of jobs that were in the cluster during the life of this one. An equal share is
  // the speed of all devices divided by it, but not more than the job could use.
  const double sharing = std::max(1.0, jct_s > 0 ? result.sharing_job_s / jct_s : 1.0);
  const double local_steps = static_cast<double>(job.spec.steps) * job.spec.max_p;
  return jct_s / (start_s + local_steps / std::min(best, all / sharing));
}

Report make_report(const Workload& workload, const SimulationResult& result, double start_s,
                   const GuaranteeRules& rules) {
  Report report{.policy = result.policy, .unfinished = result.unfinished};
  std::vector<double> jct, queue, rho;
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const JobResult& job = result.jobs[i];
    if (job.end_s < 0) continue;
    report.timed_out += job.timed_out ? 1 : 0;
    report.over_budget += job.over_budget ? 1 : 0;
    report.late += is_late(workload.jobs[i].spec.resources, job) ? 1 : 0;
    report.cost += job.cost;
    queue.push_back(job.waiting_s);
    // A job that was stopped early is no fast one.
    if (job.completed()) {
      jct.push_back(job.end_s - job.submit_s);
      rho.push_back(fairness(workload.jobs[i], job, workload.cluster, start_s));
    }
    report.makespan_s = std::max(report.makespan_s, job.end_s);
    report.rescales += job.rescales;
    report.rescale_seconds += job.rescale_s;
    report.scale_ins += job.scale_ins;
    report.lost_work_seconds += job.lost_s;
  }
  report.jobs = jct.size();
  report.avg_jct_s = mean_of(jct);
  report.p50_jct_s = percentile_of(jct, 0.5);
  report.p99_jct_s = percentile_of(jct, 0.99);
  report.avg_queue_s = mean_of(queue);
  report.mean_rho = mean_of(rho);
  if (!rho.empty()) report.worst_rho = *std::max_element(rho.begin(), rho.end());
  // Above 1 the job took longer than it would have taken alone on an equal share.
  const auto unfair = std::count_if(rho.begin(), rho.end(), [](double r) { return r > 1; });
  if (!rho.empty())
    report.unfair_share = static_cast<double>(unfair) / static_cast<double>(rho.size());
  if (report.makespan_s > 0) {
    report.devices_held_mean = sum_of(result.held_device_s) / report.makespan_s;
    report.devices_computing_mean = sum_of(result.computing_device_s) / report.makespan_s;
  }
  if (const double computing_s = sum_of(result.computing_device_s); computing_s > 0) {
    report.many_nodes_share = result.many_nodes_device_s / computing_s;
    report.many_racks_share = result.many_racks_device_s / computing_s;
  }
  const Bounds bounds = bounds_of(workload, start_s);
  report.avg_jct_bound_s = bounds.avg_jct_s;
  report.makespan_bound_s = bounds.makespan_s;
  report.failures = result.failures;
  report.stragglers = result.stragglers;
  report.refused_requests = result.refused;
  report.events = result.events;
  report.wall_seconds = result.wall_s;
  report.decisions = result.decisions;
  if (result.decisions > 0)
    report.decision_ms_mean = 1e3 * result.decision_s / static_cast<double>(result.decisions);
  report.decision_ms_p99 = result.decision_p99_s * 1e3;
  report.decision_ms_max = 1e3 * result.decision_max_s;
  report.history_hash = hex(result.history_hash);
  report.groups = groups_of(workload, result, rules.queues);
  report.guarantees = guarantees_of(workload, result, rules);
  return report;
}

std::string jobs_csv(const Workload& workload, const SimulationResult& result, double start_s) {
  std::ostringstream out;
  out << "job_id,submit_s,first_step_s,end_s,jct_s,queue_s,device_s,rescales,rescale_s,scale_ins,"
         "rho,lost_s,cost\n";
  for (std::size_t i = 0; i < result.jobs.size(); ++i) {
    const JobResult& job = result.jobs[i];
    const WorkJob& work = workload.jobs[i];
    const bool ended = job.end_s >= 0;
    out << work.id << ',' << number_text(job.submit_s) << ',' << number_text(job.first_step_s)
        << ',' << number_text(job.end_s) << ','
        << number_text(ended ? job.end_s - job.submit_s : -1) << ',' << number_text(job.waiting_s)
        << ',' << number_text(job.device_s) << ',' << job.rescales << ','
        << number_text(job.rescale_s) << ',' << job.scale_ins << ','
        << number_text(ended ? fairness(work, job, workload.cluster, start_s) : -1) << ','
        << number_text(job.lost_s) << ',' << number_text(job.cost) << '\n';
  }
  return out.str();
}

std::string allocation_csv(const SimulationResult& result) {
  std::ostringstream out;
  out << "time_s,waiting_jobs,claimed_devices";
  for (const DeviceType& type : result.types)
    out << ",held_" << type.name << ",computing_" << type.name;
  out << '\n';
  for (const Sample& sample : result.samples) {
    out << number_text(sample.time_s) << ',' << sample.waiting << ',' << sample.claimed;
    for (std::size_t t = 0; t < result.types.size(); ++t)
      out << ',' << sample.held[t] << ',' << sample.computing[t];
    out << '\n';
  }
  return out.str();
}

}  // namespace es::actors::simulator
