#include "actors/sim/report/bounds.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "scheduler/policy/common/speed.h"

namespace es::actors::simulator {
namespace {

// What the bounds need of a job.
struct Need {
  double submit_s = 0;
  double alone_s = 0;
  double device_s = 0;
  std::set<DeviceType> types;
};

Need need_of(const WorkJob& job, const DeviceSet& cluster, double start_s) {
  Need need{.submit_s = job.submit_s};
  std::vector<std::uint32_t> counts;
  std::vector<double> speeds;
  double fastest = 0, best = 0;
  for (const auto& [type, steps_per_s] : job.capabilities) {
    const std::uint32_t count = std::min(cluster.count_of(type), job.spec.max_p);
    if (count == 0) continue;
    need.types.insert(type);
    counts.push_back(count);
    speeds.push_back(steps_per_s);
    fastest = std::max(fastest, steps_per_s);
    best = std::max(best, scheduler::one_type_speed(job.spec.max_p, count, steps_per_s));
  }
  if (job.spec.level == DeterminismLevel::kD2)
    best = std::max(best, scheduler::mixed_speed(job.spec.max_p, counts, speeds));
  if (best <= 0) return need;
  const double steps = static_cast<double>(job.spec.steps) * job.spec.max_p;
  need.alone_s = start_s + steps / best;
  need.device_s = steps / fastest;
  return need;
}

// The sum of completion times on one machine; `needs` ascend by submission.
double sum_of_one_queue(const std::vector<Need>& needs, double devices) {
  std::priority_queue<std::pair<double, double>, std::vector<std::pair<double, double>>,
                      std::greater<>>
      left;  // seconds left, submission
  double now_s = 0, sum = 0;
  const auto run_until = [&](double until_s) {
    while (!left.empty() && now_s < until_s) {
      const auto [seconds, submit_s] = left.top();
      left.pop();
      const double runs_s = std::min(seconds, until_s - now_s);
      now_s += runs_s;
      if (runs_s < seconds) return left.push({seconds - runs_s, submit_s});
      sum += now_s - submit_s;
    }
  };
  for (const Need& need : needs) {
    run_until(need.submit_s);
    now_s = std::max(now_s, need.submit_s);
    left.push({need.device_s / devices, need.submit_s});
  }
  run_until(1e300);
  return sum;
}

double end_of_work(const std::vector<Need>& needs, const std::set<DeviceType>& types,
                   const DeviceSet& cluster) {
  double devices = 0;
  for (const DeviceType& type : types) devices += cluster.count_of(type);
  double end_s = 0, work_s = 0;
  for (auto need = needs.rbegin(); need != needs.rend(); ++need) {
    if (!std::includes(types.begin(), types.end(), need->types.begin(), need->types.end()))
      continue;
    work_s += need->device_s / devices;
    end_s = std::max(end_s, need->submit_s + work_s);
  }
  return end_s;
}

}  // namespace

Bounds bounds_of(const Workload& workload, double start_s) {
  std::vector<Need> needs;
  std::set<std::set<DeviceType>> sets;
  Bounds bounds;
  for (const WorkJob& job : workload.jobs) {
    needs.push_back(need_of(job, workload.cluster, start_s));
    sets.insert(needs.back().types);
    bounds.avg_jct_s += needs.back().alone_s;
    bounds.makespan_s = std::max(bounds.makespan_s, job.submit_s + needs.back().alone_s);
  }
  if (needs.empty()) return {};
  const double queue_s = sum_of_one_queue(needs, workload.cluster.total());
  bounds.avg_jct_s = std::max(bounds.avg_jct_s, queue_s) / static_cast<double>(needs.size());
  for (const auto& types : sets)
    if (!types.empty())
      bounds.makespan_s = std::max(bounds.makespan_s, end_of_work(needs, types, workload.cluster));
  return bounds;
}

}  // namespace es::actors::simulator
