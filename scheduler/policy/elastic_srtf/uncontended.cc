#include "scheduler/policy/elastic_srtf/uncontended.h"

#include "scheduler/policy/common/choice.h"

namespace es::scheduler {

std::optional<Decisions> serve_uncontended(const ClusterTable& table) {
  Counts left = table.free();
  std::vector<Change> grants;
  for (const auto& [number, slot] : table.under_served()) {
    const JobRow& row = table.rows()[slot];
    // It may need devices of other jobs, or has to move.
    if (row.pinned || row.held_total > 0) return std::nullopt;
    const Choice choice = best_choice(table, row, left, {});
    // It would not get its best devices, so jobs compete and the order matters.
    if (choice.speed < row.best_speed * (1 - 1e-9)) return std::nullopt;
    for (std::size_t t = 0; t < left.size(); ++t) left[t] -= choice.counts[t];
    grants.push_back({slot, table.to_set(choice.counts)});
  }
  return Decisions{std::move(grants), {}};
}

}  // namespace es::scheduler
