#include "scheduler/proposal.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "scheduler/device_sets.h"

namespace es::scheduler {
namespace {

double throughput_with(PlanQuery query, const DeviceSet& devices) {
  query.available = devices;
  const std::optional<RankedPlan> plan = best_plan(query);
  return plan ? plan->estimate.throughput : 0;
}

// What speedups are relative to: the throughput now, or that of one device of the fastest type.
double reference_throughput(const PlanQuery& held, const DeviceSet& addable) {
  if (!held.available.empty()) return throughput_with(held, held.available);
  double fastest = 0;
  for (const DeviceCount& c : addable.counts) {
    DeviceSet one;
    one.add(c.type, 1);
    fastest = std::max(fastest, throughput_with(held, one));
  }
  return fastest;
}

std::vector<Proposal> propose_type(const PlanQuery& held, const DeviceType& type,
                                   std::uint32_t count_max, double reference) {
  std::vector<Proposal> proposals;
  DeviceSet devices = held.available;
  double before = throughput_with(held, devices);
  for (std::uint32_t count = 1; count <= count_max; ++count) {
    devices.add(type, 1);
    const double throughput = throughput_with(held, devices);
    if (throughput > before) proposals.push_back({type, count, throughput / reference});
    before = throughput;
  }
  return proposals;
}

}  // namespace

double gain_per_device(const Proposal& proposal) {
  return std::round((proposal.speedup - 1) / proposal.count * 1e9) / 1e9;
}

bool better(const Proposal& a, const Proposal& b) {
  const auto key = [](const Proposal& p) {
    return std::tuple(-gain_per_device(p), -double(p.count));
  };
  if (key(a) != key(b)) return key(a) < key(b);
  return a.type < b.type;
}

std::vector<Proposal> propose(const PlanQuery& held, const DeviceSet& addable,
                              std::size_t per_type_max) {
  const std::uint32_t limit =
      held.max_devices == 0 ? held.max_p : std::min(held.max_p, held.max_devices);
  const std::uint32_t holds = held.available.total();
  const std::uint32_t room = limit > holds ? limit - holds : 0;
  const double reference = reference_throughput(held, addable);

  std::vector<Proposal> proposals;
  for (const DeviceCount& c : addable.counts) {
    if (!held.mix_types && holds > 0 && held.available.count_of(c.type) == 0) continue;
    if (!held.capabilities.contains(c.type)) continue;
    std::vector<Proposal> of_type = propose_type(held, c.type, std::min(c.count, room), reference);
    std::sort(of_type.begin(), of_type.end(), better);
    of_type.resize(std::min(of_type.size(), per_type_max));
    proposals.insert(proposals.end(), of_type.begin(), of_type.end());
  }
  std::sort(proposals.begin(), proposals.end(), better);
  return proposals;
}

}  // namespace es::scheduler
