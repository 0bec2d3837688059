// Bytes that the members of a job send to each other in a step, as multiples of those of a ring
// all-reduce, if each member is on a host of its own. Prints a table in Markdown; it measures
// nothing, and needs no argument.
#include <cstdio>
#include <string>
#include <vector>

#include "proto/base/sum_routes.h"
#include "scheduler/plans/placement.h"

namespace es {
namespace {

using Ranges = std::vector<RankRange>;

scheduler::WireCost wire_of(std::size_t n, double seconds_per_crossing) {
  scheduler::WireCost wire{.hosts = {}, .seconds_per_crossing = seconds_per_crossing};
  for (std::size_t d = 0; d < n; ++d) wire.hosts.push_back(std::to_string(d));
  return wire;
}

// Of one bucket: `there` sums go to its owner, and its sum goes to all others. A ring sends 2 (n -
// 1).
double of_a_ring(double there, std::size_t n) {
  const auto others = static_cast<double>(n - 1);
  return (there + others) / (2 * others);
}

// Each member sends its maximal nodes to the owner; the mean over all owners.
double one_by_one(const Ranges& ranges, std::uint32_t max_p) {
  double sums = 0;
  for (const RankRange& range : ranges) sums += scheduler::partial_sums(range, max_p);
  const auto n = static_cast<double>(ranges.size());
  return of_a_ring(sums * (n - 1) / n, ranges.size());
}

double combined(const Ranges& ranges, std::uint32_t max_p) {
  return of_a_ring(scheduler::mean_crossings(ranges, wire_of(ranges.size(), 0), max_p),
                   ranges.size());
}

double longest(const Ranges& ranges) {
  double longest = 0;
  for (const RankRange& range : ranges) longest = std::max(longest, double(range.size()));
  return longest;
}

void print_row(std::uint32_t max_p, std::size_t n) {
  const std::vector<double> equal(n, 1.0);
  const Ranges even = scheduler::assign_ranks(equal, max_p);
  // Communication takes as long as the computation, if the division is even.
  const double crossings = scheduler::mean_crossings(even, wire_of(n, 0), max_p);
  const scheduler::WireCost wire = wire_of(n, longest(even) / (crossings + double(n - 1)));
  const Ranges aligned = scheduler::assign_ranks(equal, max_p, wire);
  std::printf("| %u | %zu | %.2f | %.2f | %.2f | %.0f %% |\n", max_p, n, one_by_one(even, max_p),
              combined(even, max_p), combined(aligned, max_p),
              100 * (longest(aligned) / longest(even) - 1));
}

}  // namespace
}  // namespace es

int main() {
  std::puts("| max_p | members | one by one | combined | aligned | longest range |");
  std::puts("| --- | --- | --- | --- | --- | --- |");
  for (std::uint32_t max_p = 8; max_p <= 1024; max_p *= 2)
    for (std::size_t n = 2; n <= 8; ++n) es::print_row(max_p, n);
}
