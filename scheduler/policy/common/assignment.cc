#include "scheduler/policy/common/assignment.h"

#include <algorithm>
#include <optional>

#include "scheduler/policy/common/linear_program.h"

namespace es::scheduler {
namespace {

constexpr double kAssignmentGap = 1e-4;
constexpr int kAssignmentNodes = 100;
// Programs with more columns are left to the greedy choice: the search would take seconds.
constexpr std::size_t kAssignmentColumns = 4000;

// One call of assign_configurations().
class Assignment {
 public:
  Assignment(std::span<const AssignmentGroup> groups, const Counts& capacity)
      : groups_(groups), capacity_(capacity) {
    for (const AssignmentGroup& group : groups_) columns_ += group.configurations.size();
  }

  std::vector<Counts> run() {
    if (std::optional<std::vector<Counts>> all = best_for_all()) return *std::move(all);
    std::vector<Counts> greedy = fill_up(nothing());
    if (columns_ > kAssignmentColumns) return greedy;
    std::vector<Counts> exact = search();
    return value_of(exact) >= value_of(greedy) ? exact : greedy;
  }

 private:
  std::vector<Counts> nothing() const {
    std::vector<Counts> x;
    for (const AssignmentGroup& group : groups_) x.emplace_back(group.configurations.size(), 0U);
    return x;
  }

  // Every job with its most valuable configuration, if there are enough devices.
  std::optional<std::vector<Counts>> best_for_all() const {
    std::vector<Counts> x = nothing();
    std::vector<std::uint64_t> needs(capacity_.size(), 0);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto& configurations = groups_[g].configurations;
      if (configurations.empty()) continue;
      std::size_t best = 0;
      for (std::size_t k = 1; k < configurations.size(); ++k)
        if (configurations[k].value > configurations[best].value) best = k;
      x[g][best] = groups_[g].jobs;
      needs[configurations[best].type] +=
          std::uint64_t{configurations[best].devices} * groups_[g].jobs;
    }
    for (std::size_t t = 0; t < capacity_.size(); ++t)
      if (needs[t] > capacity_[t]) return std::nullopt;
    return x;
  }

  // Adds configurations by value per device while they fit.
  std::vector<Counts> fill_up(std::vector<Counts> x) const {
    Counts left = capacity_;
    std::vector<std::uint32_t> jobs;
    struct Entry {
      double worth;
      std::size_t group, configuration;
    };
    std::vector<Entry> entries;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      jobs.push_back(groups_[g].jobs);
      for (std::size_t k = 0; k < groups_[g].configurations.size(); ++k) {
        const Configuration& c = groups_[g].configurations[k];
        jobs[g] -= x[g][k];
        left[c.type] -= x[g][k] * c.devices;
        entries.push_back({c.value / c.devices, g, k});
      }
    }
    std::stable_sort(entries.begin(), entries.end(),
                     [](const Entry& a, const Entry& b) { return a.worth > b.worth; });
    for (const Entry& e : entries) {
      const Configuration& c = groups_[e.group].configurations[e.configuration];
      const std::uint32_t more = std::min(jobs[e.group], left[c.type] / c.devices);
      x[e.group][e.configuration] += more;
      jobs[e.group] -= more;
      left[c.type] -= more * c.devices;
    }
    return x;
  }

  std::vector<Counts> search() const {
    LinearProgram program;
    std::vector<std::vector<LinearProgram::Term>> used(capacity_.size());
    for (const AssignmentGroup& group : groups_) {
      std::vector<LinearProgram::Term> chosen;
      for (const Configuration& c : group.configurations) {
        const std::size_t column = program.add_column(
            c.value, std::min<double>(group.jobs, capacity_[c.type] / c.devices));
        chosen.push_back({column, 1});
        used[c.type].push_back({column, static_cast<double>(c.devices)});
      }
      program.add_row(group.jobs, chosen);
    }
    for (std::size_t t = 0; t < used.size(); ++t) program.add_row(capacity_[t], used[t]);
    const std::vector<double> best = program.solve_integer(kAssignmentGap, kAssignmentNodes);
    std::vector<Counts> counts = nothing();
    std::size_t column = 0;
    for (Counts& group : counts)
      for (std::uint32_t& count : group) count = static_cast<std::uint32_t>(best[column++]);
    return counts;
  }

  double value_of(const std::vector<Counts>& x) const {
    double value = 0;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t k = 0; k < x[g].size(); ++k)
        value += groups_[g].configurations[k].value * x[g][k];
    return value;
  }

  const std::span<const AssignmentGroup> groups_;
  const Counts& capacity_;
  std::size_t columns_ = 0;
};

}  // namespace

std::vector<Counts> assign_configurations(std::span<const AssignmentGroup> groups,
                                          const Counts& capacity) {
  return Assignment(groups, capacity).run();
}

}  // namespace es::scheduler
