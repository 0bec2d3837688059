#include "gpu/optim/parameter_groups.h"

#include <string>

#include "proto/base/job_fields.h"

namespace es::gpu {
namespace {

// All names of each parameter, those of tied weights included.
std::vector<std::vector<std::string_view>> names_of_params(const ParamTable& table) {
  std::vector<std::vector<std::string_view>> all;
  for (const ParamInfo& param : table.params()) all.push_back({param.name});
  for (const AliasInfo& alias : table.aliases())
    all[static_cast<std::size_t>(alias.param)].push_back(alias.name);
  return all;
}

bool names_any(std::string_view pattern, std::span<const std::string_view> parameter_names) {
  return std::any_of(parameter_names.begin(), parameter_names.end(),
                     [pattern](std::string_view name) { return names_parameter(pattern, name); });
}

// The smallest number of characters that must be inserted, removed or replaced so that the pattern
// names the parameter.
std::size_t distance(std::string_view pattern, std::string_view name) {
  // The rows of the table of edit distances: `before` belongs to the pattern without its current
  // character, `now` includes it.
  std::vector<std::size_t> before(name.size() + 1), now(name.size() + 1);
  for (std::size_t i = 0; i <= name.size(); ++i) before[i] = i;
  for (const char c : pattern) {
    const std::size_t cost = c == '*' ? 0 : 1;  // of leaving out c, and of one more character
    now[0] = before[0] + cost;
    for (std::size_t i = 0; i < name.size(); ++i)
      now[i + 1] =
          std::min({before[i + 1] + cost, now[i] + cost, before[i] + (c == name[i] ? 0 : cost)});
    before.swap(now);
  }
  return before.back();
}

Error names_nothing(const std::string& key, const std::string& pattern, const ParamTable& table) {
  const std::vector<ParamInfo>& params = table.params();
  const auto nearest =
      std::min_element(params.begin(), params.end(), [&](const ParamInfo& a, const ParamInfo& b) {
        return distance(pattern, a.name) < distance(pattern, b.name);
      });
  std::string allowed = "the name of a parameter of the model, with \"*\" for any characters";
  if (nearest != params.end()) allowed += "; a similar name is \"" + nearest->name + "\"";
  return usage_error(key + " = [\"" + pattern + "\"]: allowed is " + allowed);
}

// Cuts the parameters into runs. Group 0 are those that no group names; groups[g] is the group
// g + 1. The first group that names a parameter gets it.
template <class Group>
Result<std::vector<GroupRun>> runs_by(const ParamTable& table, std::span<const Group> groups) {
  const std::vector<std::vector<std::string_view>> all_names = names_of_params(table);
  std::vector<std::size_t> group_of(all_names.size(), 0);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const std::string& pattern : groups[g].parameters) {
      bool found = false;
      for (std::size_t i = 0; i < all_names.size(); ++i) {
        if (!names_any(pattern, all_names[i])) continue;
        found = true;
        if (group_of[i] == 0) group_of[i] = g + 1;
      }
      if (!found) return names_nothing(group_key<Group>(g, "parameters"), pattern, table);
    }
  std::vector<GroupRun> runs;
  for (std::size_t i = 0; i < table.trained().size(); ++i) {
    // A run includes the padding behind its parameters. Padding has gradient +0 and value +0, so an
    // update leaves it at +0, and runs of one group have no gaps between them.
    const std::int64_t end = table.padded_end(static_cast<ParamId>(i));
    if (!runs.empty() && runs.back().group == group_of[i])
      runs.back().end = end;
    else
      runs.push_back({table.trained()[i].offset, end, group_of[i]});
  }
  return runs;
}

}  // namespace

bool names_parameter(std::string_view pattern, std::string_view parameter) {
  // After a mismatch the last "*" takes one more character.
  std::size_t star = std::string_view::npos, star_end = 0, p = 0;
  for (std::size_t at = 0; at < parameter.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = at;
    } else if (p < pattern.size() && pattern[p] == parameter[at]) {
      ++p;
      ++at;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++star_end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Result<std::vector<GroupRun>> group_runs(const ParamTable& table,
                                         std::span<const ParameterGroup> groups) {
  return runs_by(table, groups);
}

Result<std::vector<GroupRun>> clipped_runs(std::vector<GroupRun> runs, const ParamTable& table,
                                           std::span<const ClipGroup> groups) {
  if (groups.empty()) return runs;
  const auto clips = runs_by(table, groups);
  if (!clips) return clips.error();
  std::vector<GroupRun> cut;
  for (const GroupRun& run : runs)
    visit_runs(*clips, run.begin, run.end, [&](const GroupRun& part) {
      cut.push_back({part.begin, part.end, run.group, part.group});
    });
  return cut;
}

}  // namespace es::gpu
