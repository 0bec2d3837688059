#pragma once
// The results of a simulation by queue, tenant, model and device type. Pure.
//
// A job is in one group of each kind that the trace has: its queue, if there are queues, its tenant
// and its model. It counts in each device type of which it has held devices.
#include <string>
#include <vector>

#include "actors/sim/shell/simulation.h"

namespace es::actors::simulator {

enum class GroupKind : std::uint8_t { kQueue, kTenant, kModel, kType };
const char* kind_name(GroupKind kind);

struct Group {
  GroupKind kind = GroupKind::kQueue;
  std::string name;      // "": jobs that are in no queue, or have no tenant or model
  std::size_t jobs = 0;  // that made all their steps
  double avg_wait_s = 0, p95_wait_s = 0;  // time without any device, of all jobs that ended
  double avg_jct_s = 0, p95_jct_s = 0;    // of `jobs`
  std::size_t unfinished = 0;
  double device_hours = 0;  // held, by all its jobs; of a type only devices of it
  double devices_mean = 0;  // held over the makespan
  double devices_most = 0;  // held at one moment
  bool operator==(const Group&) const = default;
};

// By kind, then by name.
std::vector<Group> groups_of(const Workload& workload, const SimulationResult& result,
                             const std::vector<scheduler::Queue>& queues);

// What the jobs of a group hold over time: a point for each change.
struct GroupSeries {
  GroupKind kind = GroupKind::kQueue;
  std::string name;
  struct Point {
    double time_s = 0;
    std::uint32_t devices = 0, waiting = 0;  // waiting: jobs without any device
  };
  std::vector<Point> points;
};
// Of queues, tenants and models; allocation.csv has the types.
std::vector<GroupSeries> groups_over_time(const Workload& workload, const SimulationResult& result,
                                          const std::vector<scheduler::Queue>& queues);

// Tables for other programs.
std::string groups_csv(const std::vector<Group>& groups);
std::string groups_over_time_csv(const std::vector<GroupSeries>& groups);

}  // namespace es::actors::simulator
