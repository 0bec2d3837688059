#include "scheduler/policy/rivals/sia.h"

#include <algorithm>
#include <cmath>

#include "scheduler/policy/rivals/configurations.h"

namespace es::scheduler {
namespace {

constexpr double kSiaRoundS = 60;
constexpr double kNoDevices = 1.1;
constexpr double kCostMost = 3000;

// x^-0.5, rounded to hundredths. The square root is correctly rounded everywhere.
double cost_of(double goodput) {
  if (goodput <= 1 / (kCostMost * kCostMost)) return kCostMost;
  return std::round(100 / std::sqrt(goodput)) / 100;
}

double restart_factor(const ClusterTable& table, const JobRow& row) {
  const double age_s = std::max(0.0, table.now_s() - row.submit_s);
  const double spent_s = row.changes * row.rescale_s;
  // A job that has computed for less than a change takes may change at once; a change that is free
  // delays no job.
  if (table.attained(row) < row.rescale_s || row.rescale_s <= 0) return 1;
  return std::max(0.0, age_s - spent_s) / (age_s + row.rescale_s);
}

Contender contender_of(const ClusterTable& table, const JobRow& row) {
  Contender contender{row.slot, options_of(table, row), {}};
  double least = 0;
  for (const Option& option : contender.options)
    least = least == 0 ? option.speed : std::min(least, option.speed);
  const double factor = row.held_total > 0 ? restart_factor(table, row) : 1;
  for (const Option& option : contender.options) {
    const double goodput = row.min_devices * option.speed / least;
    contender.values.push_back(kNoDevices - cost_of(option.is_held ? goodput : factor * goodput));
  }
  return contender;
}

}  // namespace

Decisions SiaPolicy::decide(const ClusterView& view) {
  table_.update(view);
  const std::vector<std::size_t> order = by_priority(table_);
  Rounds rounds(table_, kSiaRoundS, order);
  for (std::size_t first = 0; first < order.size() && rounds.is_anything_left();) {
    std::vector<Contender> contenders;
    const int priority = table_.rows()[order[first]].priority;
    for (; first < order.size(); ++first) {
      const JobRow& row = table_.rows()[order[first]];
      if (row.priority != priority) break;
      if (rounds.can_give(row)) contenders.push_back(contender_of(table_, row));
    }
    const auto chosen = assign_options(table_, contenders, rounds);
    // The search of the program is bounded, and may leave devices that suffice for a job.
    for (std::size_t i = 0; i < contenders.size() && rounds.is_anything_left(); ++i) {
      const JobRow& row = table_.rows()[contenders[i].slot];
      if (chosen[i] || row.held_total >= row.min_devices) continue;
      if (const Option* best = fastest_left(row, contenders[i].options, rounds)) {
        Counts counts(table_.types(), 0);
        counts[best->type] = best->devices;
        rounds.give(row, counts);
      }
    }
  }
  return rounds.finish();
}

}  // namespace es::scheduler
