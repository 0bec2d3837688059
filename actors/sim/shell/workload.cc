#include "actors/sim/shell/workload.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace es::actors::simulator {
namespace {

scheduler::Capabilities capabilities_of(const store::TraceJob& job, const store::StepTimes& times,
                                        const DeviceSet& cluster) {
  scheduler::Capabilities capabilities;
  for (const DeviceCount& c : cluster.counts) {
    const auto step_s = times.local_step_s(job.model, c.type.name, job.batch_size);
    // A local step of a job without a model takes one second on every type (job_trace.h).
    if (job.model.empty()) capabilities[c.type] = 1;
    if (step_s) capabilities[c.type] = 1 / *step_s;
  }
  if (!job.mix_types && !job.type.empty())
    std::erase_if(capabilities, [&](const auto& entry) { return entry.first.name != job.type; });
  return capabilities;
}

Result<double> local_steps_of(const store::TraceJob& job, const store::StepTimes& times) {
  if (job.local_steps > 0) return job.local_steps;
  const auto at = times.samples_total.find(job.model);
  if (at != times.samples_total.end()) return at->second / job.batch_size;
  return usage_error("job " + job.id + ": its trace does not say how much work model " + job.model +
                     " is: give --steptimes with a column samples_total");
}

// The job's own type is first, because policies without elastic scaling use the first type.
std::vector<DeviceType> types_of(const store::TraceJob& job,
                                 const scheduler::Capabilities& capabilities) {
  std::vector<DeviceType> types;
  for (const auto& [type, steps_per_s] : capabilities) types.push_back(type);
  std::stable_partition(types.begin(), types.end(),
                        [&](const DeviceType& type) { return type.name == job.type; });
  return types;
}

// Otherwise it would wait for ever.
Status check_minimum(const store::TraceJob& job, const scheduler::Capabilities& capabilities,
                     const DeviceSet& cluster) {
  std::uint32_t most = 0;
  for (const auto& [type, steps_per_s] : capabilities) {
    const std::uint32_t count = cluster.count_of(type);
    most = job.mix_types ? most + count : std::max(most, count);
  }
  if (most >= job.min_devices) return {};
  return usage_error("job " + job.id + ": min_devices = " + std::to_string(job.min_devices) +
                     ": the cluster " + cluster.text() + " has " + std::to_string(most) +
                     " devices for it");
}

Result<WorkJob> work_job(const store::TraceJob& job, const store::StepTimes& times,
                         const DeviceSet& cluster) {
  WorkJob work{.id = job.id,
               .submit_s = job.submit_s,
               .model = job.model,
               .spec = {},
               .model_key = job.model + " b" + std::to_string(job.batch_size),
               .capabilities = capabilities_of(job, times, cluster)};
  if (work.capabilities.empty())
    return usage_error("job " + job.id + ": model " + job.model +
                       (job.mix_types || job.type.empty() ? "" : " on its only type " + job.type) +
                       ": no step time on any device type of the cluster " + cluster.text() +
                       (times.seconds.empty() ? "" : "; known are " + times.device_types_text()));
  ES_RETURN_IF_ERROR(check_minimum(job, work.capabilities, cluster));
  const auto local_steps = local_steps_of(job, times);
  if (!local_steps) return local_steps.error();
  JobSpec& spec = work.spec;
  spec.name = "job";
  spec.max_p = job.max_p;
  spec.batch_size = job.batch_size;
  spec.steps = static_cast<Version>(std::max(1.0, std::ceil(*local_steps / job.max_p)));
  spec.level = job.mix_types ? DeterminismLevel::kD2 : DeterminismLevel::kD1;
  spec.resources.device_types = types_of(job, work.capabilities);
  spec.resources.tenant = job.tenant;
  spec.resources.queue = job.queue;
  spec.resources.min_devices = job.min_devices;
  spec.resources.priority = job.priority;
  spec.resources.deadline_seconds = job.deadline_s;
  spec.resources.suspendable = job.suspendable;
  spec.resources.max_seconds = job.max_s;
  spec.resources.budget = job.budget;
  return work;
}

// A job that is drawn again gets another id.
std::vector<store::TraceJob> drawn_jobs(const std::vector<store::TraceJob>& jobs,
                                        std::mt19937_64& random) {
  std::map<std::string, int> copies;
  std::vector<store::TraceJob> drawn;
  for (const store::TraceJob& slot : jobs) {
    drawn.push_back(jobs[random() % jobs.size()]);
    drawn.back().submit_s = slot.submit_s;
    const int copy = copies[drawn.back().id]++;
    if (copy > 0) drawn.back().id += "#" + std::to_string(copy + 1);
  }
  return drawn;
}

}  // namespace

Result<Workload> make_workload(const store::JobTrace& trace, const store::StepTimes& times,
                               const DeviceSet& cluster, const WorkloadOptions& options) {
  Workload workload{cluster, {}};
  std::mt19937_64 random(options.seed);
  workload.jobs.reserve(trace.jobs.size());
  for (const store::TraceJob& job :
       options.resample ? drawn_jobs(trace.jobs, random) : trace.jobs) {
    auto work = work_job(job, times, cluster);
    if (!work) return work.error();
    // The delay is computed from the bits of the generator alone, because distributions differ
    // between libraries.
    work->submit_s += options.jitter_s * (static_cast<double>(random() >> 11) * 0x1p-53);
    workload.jobs.push_back(*std::move(work));
  }
  std::stable_sort(workload.jobs.begin(), workload.jobs.end(),
                   [](const WorkJob& a, const WorkJob& b) { return a.submit_s < b.submit_s; });
  return workload;
}

}  // namespace es::actors::simulator
