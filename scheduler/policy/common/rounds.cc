#include "scheduler/policy/common/rounds.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace es::scheduler {
namespace {

// The part of a round in which its plan is made and carried out: long enough for a job to leave a
// device that another one was given. At most kOpenSeconds.
constexpr double kOpenPart = 1.0 / 6;
constexpr double kOpenSeconds = 30;

}  // namespace

Rounds::Rounds(const ClusterTable& table, double round_s, std::span<const std::size_t> order)
    : table_(table), order_(order), targets_(table), kept_(table.rows().size(), false) {
  const double begin_s = std::floor(table.now_s() / round_s) * round_s;
  is_open_ = table.now_s() - begin_s < std::min(kOpenPart * round_s, kOpenSeconds);
  if (!order.empty()) next_s_ = begin_s + round_s;
  // Rounding could make the sum equal to the present time.
  if (next_s_ <= table.now_s()) next_s_ += round_s;
  set_fixed_targets(table, order, targets_);
  for (const std::size_t slot : order) {
    const JobRow& row = table.rows()[slot];
    // Devices change hands only once in a round.
    if (!is_open_ || !row.settled || row.changed_s >= begin_s) keep(row);
  }
}

void Rounds::keep(const JobRow& row) {
  if (row.pinned || row.held_total < row.min_devices) return;
  if (give(row, table_.held(row.slot))) kept_[row.slot] = true;
}

bool Rounds::give(const JobRow& row, std::span<const std::uint32_t> counts) {
  for (std::size_t t = 0; t < counts.size(); ++t)
    if (counts[t] > left_for(row, t)) return false;
  targets_.set(row.slot, counts);
  return true;
}

Decisions Rounds::finish() {
  for (const std::size_t slot : order_)
    if (!table_.rows()[slot].pinned) targets_.rank(slot);
  Decisions decisions = carry_out(table_, targets_);
  decisions.again_at = Seconds(next_s_);
  return decisions;
}

std::vector<std::size_t> by_priority(const ClusterTable& table) {
  std::vector<std::tuple<int, std::uint64_t, std::size_t>> keyed;
  for (const JobRow& row : table.rows())
    if (row.present) keyed.emplace_back(-row.priority, row.number, row.slot);
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::size_t> slots;
  slots.reserve(keyed.size());
  for (const auto& [priority, number, slot] : keyed) slots.push_back(slot);
  return slots;
}

void sort_by_share(const ClusterTable& table, std::vector<std::size_t>& slots) {
  std::vector<std::tuple<int, double, std::uint64_t, std::size_t>> keyed;
  keyed.reserve(slots.size());
  for (const std::size_t slot : slots) {
    const JobRow& row = table.rows()[slot];
    const double due = table.fair_speed(row) * (table.now_s() - row.submit_s);
    keyed.emplace_back(-row.priority, due > 0 ? table.done(row) / due : 0, row.number, slot);
  }
  std::sort(keyed.begin(), keyed.end());
  for (std::size_t i = 0; i < keyed.size(); ++i) slots[i] = std::get<3>(keyed[i]);
}

}  // namespace es::scheduler
