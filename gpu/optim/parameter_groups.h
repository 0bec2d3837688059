#pragma once
// The places of groups of parameters (OptimizerSpec::groups) in the flat layout.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "gpu/params/param_table.h"
#include "proto/base/job_spec.h"
#include "proto/base/result.h"

namespace es::gpu {

// The floats [begin, end), whose parameters have the settings of one group and are clipped alike.
struct GroupRun {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
  std::size_t group = 0;  // 0: no group, the settings of the job; g + 1: groups[g]
  std::size_t clip = 0;   // 0: no clip group; c + 1: clip_groups[c]
  bool operator==(const GroupRun&) const = default;
};

// Returns whether the pattern of a group names a parameter.
bool names_parameter(std::string_view pattern, std::string_view parameter);

// Cuts the parameters that are trained into runs, in the order of the layout and as few as
// possible. Error (usage): a pattern names no parameter; the text proposes a similar name.
Result<std::vector<GroupRun>> group_runs(const ParamTable& table,
                                         std::span<const ParameterGroup> groups);

// Cuts runs further where one clip group ends. Error (usage): as group_runs().
Result<std::vector<GroupRun>> clipped_runs(std::vector<GroupRun> runs, const ParamTable& table,
                                           std::span<const ClipGroup> groups);

// Calls visit() with the parts of runs that are in [begin, end), in their order. REQUIRES: the runs
// cover [begin, end).
template <class Visit>
void visit_runs(std::span<const GroupRun> runs, std::int64_t begin, std::int64_t end,
                Visit&& visit) {
  const auto ends_before = [](std::int64_t at, const GroupRun& run) { return at < run.end; };
  for (auto run = std::upper_bound(runs.begin(), runs.end(), begin, ends_before); begin < end;
       ++run) {
    GroupRun part = *run;
    part.begin = begin;
    part.end = begin = std::min(end, run->end);
    visit(part);
  }
}

}  // namespace es::gpu
