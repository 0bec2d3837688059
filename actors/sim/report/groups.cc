#include "actors/sim/report/groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "actors/sim/report/figures.h"
#include "actors/sim/report/texts.h"
#include "proto/base/number_text.h"

namespace es::actors::simulator {
namespace {

constexpr double kTailShare = 0.95;
constexpr GroupKind kKindsOfJobs[] = {GroupKind::kQueue, GroupKind::kTenant, GroupKind::kModel};

using Queues = std::vector<scheduler::Queue>;

std::string name_of(const WorkJob& job, GroupKind kind, const Queues& queues) {
  const ResourceSpec& asks = job.spec.resources;
  if (kind == GroupKind::kQueue) return scheduler::queue_of_job(queues, asks.queue, asks.tenant);
  return kind == GroupKind::kTenant ? asks.tenant : job.model;
}

// The name of the group of each job; empty if the trace has no groups of this kind.
std::vector<std::string> names_of(const Workload& workload, GroupKind kind, const Queues& queues) {
  std::vector<std::string> names;
  for (const WorkJob& job : workload.jobs) names.push_back(name_of(job, kind, queues));
  const bool has_any = std::ranges::any_of(names, [](const auto& name) { return !name.empty(); });
  return has_any ? names : std::vector<std::string>();
}

double makespan_of(const SimulationResult& result) {
  double makespan_s = 0;
  for (const JobResult& job : result.jobs) makespan_s = std::max(makespan_s, job.end_s);
  return makespan_s;
}

Group group_of(GroupKind kind, const std::string& name, const std::vector<std::size_t>& members,
               const SimulationResult& result) {
  Group group{.kind = kind, .name = name};
  std::vector<double> waits, jct;
  for (const std::size_t i : members) {
    const JobResult& job = result.jobs[i];
    if (job.end_s < 0) {
      ++group.unfinished;
      continue;
    }
    waits.push_back(job.waiting_s);
    if (job.completed()) jct.push_back(job.end_s - job.submit_s);
  }
  group.jobs = jct.size();
  group.avg_wait_s = mean_of(waits);
  group.p95_wait_s = percentile_of(waits, kTailShare);
  group.avg_jct_s = mean_of(jct);
  group.p95_jct_s = percentile_of(jct, kTailShare);
  return group;
}

// Sums of changes, by time.
class Steps {
 public:
  void add(const JobSpan& span, std::uint32_t devices) {
    const int waits = span.state == SpanState::kWaits ? 1 : 0;
    change(span.from_s, static_cast<std::int64_t>(devices), waits);
    change(span.until_s, -static_cast<std::int64_t>(devices), -waits);
  }
  std::vector<GroupSeries::Point> points() const {
    std::vector<GroupSeries::Point> points;
    std::int64_t devices = 0, waiting = 0;
    for (const auto& [time_s, change] : changes_) {
      devices += change.first;
      waiting += change.second;
      const GroupSeries::Point point{time_s, static_cast<std::uint32_t>(devices),
                                     static_cast<std::uint32_t>(waiting)};
      if (points.empty() || points.back().devices != point.devices ||
          points.back().waiting != point.waiting)
        points.push_back(point);
    }
    return points;
  }

 private:
  void change(double time_s, std::int64_t devices, int waits) {
    auto& at = changes_[time_s];
    at.first += devices;
    at.second += waits;
  }
  std::map<double, std::pair<std::int64_t, std::int64_t>> changes_;
};

std::uint32_t total_of(const JobSpan& span) {
  std::uint32_t total = 0;
  for (const std::uint32_t count : span.held) total += count;
  return total;
}

std::vector<GroupSeries> series_of(GroupKind kind, const std::vector<std::string>& names,
                                   const SimulationResult& result) {
  std::map<std::string, Steps> steps;
  if (!names.empty())
    for (const JobSpan& span : result.spans) steps[names[span.job]].add(span, total_of(span));
  std::vector<GroupSeries> series;
  for (const auto& [name, sum] : steps) series.push_back({kind, name, sum.points()});
  return series;
}

void add_use(Group& group, const std::vector<GroupSeries::Point>& points, double makespan_s) {
  double device_s = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    group.devices_most = std::max<double>(group.devices_most, points[i].devices);
    if (i + 1 < points.size())
      device_s += points[i].devices * (points[i + 1].time_s - points[i].time_s);
  }
  group.device_hours = device_s / 3600;
  if (makespan_s > 0) group.devices_mean = device_s / makespan_s;
}

void add_types(const SimulationResult& result, std::vector<Group>& groups) {
  for (std::size_t t = 0; t < result.types.size(); ++t) {
    Steps steps;
    std::set<std::size_t> members;
    for (const JobSpan& span : result.spans) {
      if (span.held[t] == 0) continue;
      steps.add(span, span.held[t]);
      members.insert(span.job);
    }
    groups.push_back(
        group_of(GroupKind::kType, result.types[t].name, {members.begin(), members.end()}, result));
    add_use(groups.back(), steps.points(), makespan_of(result));
  }
}

}  // namespace

const char* kind_name(GroupKind kind) {
  switch (kind) {
    case GroupKind::kQueue:
      return "queue";
    case GroupKind::kTenant:
      return "tenant";
    case GroupKind::kModel:
      return "model";
    case GroupKind::kType:
      return "type";
  }
  return "?";
}

std::vector<Group> groups_of(const Workload& workload, const SimulationResult& result,
                             const Queues& queues) {
  std::vector<Group> groups;
  for (const GroupKind kind : kKindsOfJobs) {
    const std::vector<std::string> names = names_of(workload, kind, queues);
    std::map<std::string, std::vector<std::size_t>> members;
    for (std::size_t i = 0; i < names.size(); ++i) members[names[i]].push_back(i);
    for (const auto& [name, jobs] : members) groups.push_back(group_of(kind, name, jobs, result));
    for (const GroupSeries& series : series_of(kind, names, result)) {
      const auto group = std::ranges::find_if(groups, [&](const Group& other) {
        return other.kind == kind && other.name == series.name;
      });
      add_use(*group, series.points, makespan_of(result));
    }
  }
  add_types(result, groups);
  return groups;
}

std::vector<GroupSeries> groups_over_time(const Workload& workload, const SimulationResult& result,
                                          const Queues& queues) {
  std::vector<GroupSeries> all;
  for (const GroupKind kind : kKindsOfJobs)
    for (GroupSeries& series : series_of(kind, names_of(workload, kind, queues), result))
      all.push_back(std::move(series));
  return all;
}

std::string groups_csv(const std::vector<Group>& groups) {
  std::ostringstream out;
  out << "kind,name,jobs,unfinished,avg_wait_s,p95_wait_s,avg_jct_s,p95_jct_s,device_hours,"
         "devices_mean,devices_most\n";
  for (const Group& group : groups) {
    out << kind_name(group.kind) << ',' << csv_field(group.name) << ',' << group.jobs << ','
        << group.unfinished;
    for (const double figure :
         {group.avg_wait_s, group.p95_wait_s, group.avg_jct_s, group.p95_jct_s, group.device_hours,
          group.devices_mean, group.devices_most})
      out << ',' << number_text(figure);
    out << '\n';
  }
  return out.str();
}

std::string groups_over_time_csv(const std::vector<GroupSeries>& groups) {
  std::ostringstream out;
  out << "kind,name,time_s,devices,waiting_jobs\n";
  for (const GroupSeries& group : groups)
    for (const GroupSeries::Point& point : group.points)
      out << kind_name(group.kind) << ',' << csv_field(group.name) << ','
          << number_text(point.time_s) << ',' << point.devices << ',' << point.waiting << '\n';
  return out.str();
}

}  // namespace es::actors::simulator
