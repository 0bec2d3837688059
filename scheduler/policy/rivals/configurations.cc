#include "scheduler/policy/rivals/configurations.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "scheduler/policy/common/speed.h"

namespace es::scheduler {

std::vector<Option> options_of(const ClusterTable& table, const JobRow& row) {
  std::vector<Option> options;
  const auto held = table.held(row.slot);
  const auto speeds = table.capabilities(row.slot);
  for (std::size_t t = 0; t < table.types(); ++t) {
    if (speeds[t] <= 0) continue;
    std::uint32_t most = std::min(table.total()[t], row.max_devices);
    // A job that stays on its type grows only by what it has proposed (policy.h, rule `grow`).
    if (held[t] > 0 && row.held_total >= row.min_devices)
      most = std::min(most, held[t] + table.grantable(row.slot)[t]);
    const bool is_held = held[t] > 0 && held[t] == row.held_total;
    std::set<std::uint32_t> counts;
    for (std::uint32_t n = 1; n <= most && n > 0; n *= 2) counts.insert(n);
    if (most > 0) counts.insert(most);
    counts.insert(row.min_devices);
    if (is_held) counts.insert(held[t]);
    // A job that has lost a part of its minimum is granted exactly what it lacks (policy.h).
    if (row.held_total > 0 && row.held_total < row.min_devices) counts = {row.min_devices};
    for (const std::uint32_t n : counts) {
      const bool same = is_held && n == held[t];
      const bool useful = useful_devices(row.max_p, n) == n || n == row.min_devices;
      if (n < row.min_devices || (!same && (n > most || !useful))) continue;
      Counts set(table.types(), 0);
      set[t] = n;
      if (!same && table.fall_back_of(row.slot, set) != nullptr) continue;
      const double speed = one_type_speed(row.max_p, n, speeds[t], table.sync(row.slot));
      options.push_back({t, n, speed, same});
    }
  }
  return options;
}

const Option* fastest_left(const JobRow& row, std::span<const Option> options,
                           const Rounds& rounds) {
  const Option* best = nullptr;
  for (const Option& option : options) {
    if (rounds.left_for(row, option.type) < option.devices) continue;
    if (best == nullptr || option.speed > best->speed) best = &option;
  }
  return best;
}

namespace {

using GroupKey = std::vector<std::tuple<std::size_t, std::uint32_t, double>>;

}  // namespace

std::vector<std::optional<std::size_t>> assign_options(const ClusterTable& table,
                                                       std::span<const Contender> contenders,
                                                       Rounds& rounds) {
  std::map<GroupKey, std::size_t> known;
  std::vector<AssignmentGroup> groups;
  std::vector<std::vector<std::size_t>> members;                     // contenders of each group
  std::vector<std::vector<std::size_t>> options(contenders.size());  // of each configuration
  Counts capacity = rounds.left();
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    const Contender& contender = contenders[i];
    // What the job is assured of (its minimum, if it may not be suspended) is given anew.
    for (std::size_t t = 0; t < table.types(); ++t)
      capacity[t] += rounds.left_for(table.rows()[contender.slot], t) - rounds.left()[t];
    GroupKey key;
    AssignmentGroup group;
    for (std::size_t k = 0; k < contender.options.size(); ++k) {
      const Option& option = contender.options[k];
      if (contender.values[k] <= 0) continue;
      key.emplace_back(option.type, option.devices, contender.values[k]);
      group.configurations.push_back({option.type, option.devices, contender.values[k]});
      options[i].push_back(k);
    }
    if (key.empty()) continue;
    const auto [at, is_new] = known.try_emplace(std::move(key), groups.size());
    if (is_new) {
      group.jobs = 0;
      groups.push_back(std::move(group));
      members.emplace_back();
    }
    ++groups[at->second].jobs;
    members[at->second].push_back(i);
  }
  const std::vector<Counts> x = assign_configurations(groups, capacity);
  std::vector<std::optional<std::size_t>> chosen(contenders.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::size_t next = 0;
    for (std::size_t k = 0; k < x[g].size(); ++k)
      for (std::uint32_t n = 0; n < x[g][k]; ++n, ++next)
        chosen[members[g][next]] = options[members[g][next]][k];
  }
  // The assured minima of jobs that got another type or nothing are still reserved, so those that
  // change give first what they had.
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    if (!chosen[i]) continue;
    const Option& option = contenders[i].options[*chosen[i]];
    Counts counts(table.types(), 0);
    counts[option.type] = option.devices;
    if (!rounds.give(table.rows()[contenders[i].slot], counts)) chosen[i].reset();
  }
  return chosen;
}

}  // namespace es::scheduler
