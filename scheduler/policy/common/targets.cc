#include "scheduler/policy/common/targets.h"

#include <algorithm>

#include "proto/base/check.h"

namespace es::scheduler {

void Targets::begin(const ClusterTable& table) {
  if (types_ != table.types()) {
    types_ = table.types();
    wanted_.clear();
    targeted_.clear();
  }
  // Only targets that were set are cleared, so a decision about a few jobs does not cost a pass
  // over all of them.
  for (const std::size_t slot : targeted_)
    std::fill_n(wanted_.begin() + static_cast<std::ptrdiff_t>(slot * types_), types_, 0U);
  targeted_.clear();
  wanted_.resize(types_ * table.rows().size(), 0);
  left_ = table.supply();
  order_.clear();
  table_ = &table;
  if (!has_queues()) return;
  use_ = QueueUse(table.queues());
  // What pinned jobs keep is not in the supply, and belongs to their queues.
  for (const JobRow& row : table.rows())
    if (row.present && row.pinned) use_.add(row.queue, table.kept_by_pin(row.slot));
}

Counts Targets::within_queue(std::size_t slot, Counts counts) const {
  if (!has_queues()) return counts;
  for (std::size_t t = 0; t < types_; ++t) {
    // The target of the job is replaced, so its devices are room for the new one. A target beyond
    // the limit is no room.
    const std::uint32_t room = use_.room(queue_of(slot), t, of(slot)[t]);
    counts[t] = std::min(counts[t], room);
  }
  return counts;
}

Counts Targets::choices_of(std::size_t slot) const {
  Counts choices = left_;
  for (std::size_t t = 0; t < types_; ++t) choices[t] += of(slot)[t];
  return within_queue(slot, std::move(choices));
}

bool Targets::is_empty(std::size_t slot) const {
  return total(of(slot)) == 0;
}

void Targets::set(std::size_t slot, std::span<const std::uint32_t> counts) {
  targeted_.push_back(slot);
  if (has_queues()) {
    use_.remove(queue_of(slot), of(slot));
    use_.add(queue_of(slot), counts);
  }
  for (std::size_t t = 0; t < types_; ++t) {
    std::uint32_t& wanted = wanted_[slot * types_ + t];
    // The old target is returned first, so a job may be given a part of it again.
    left_[t] += wanted;
    ES_CHECK(left_[t] >= counts[t]);
    left_[t] -= counts[t];
    wanted = counts[t];
  }
}

bool Targets::keep(const ClusterTable& table, std::size_t slot) {
  const auto held = table.held(slot);
  if (!covers(left_, held)) return false;
  if (has_queues() && !use_.allows(queue_of(slot), held)) return false;
  if (has_queues()) use_.add(queue_of(slot), held);
  targeted_.push_back(slot);
  for (std::size_t t = 0; t < types_; ++t) {
    left_[t] -= held[t];
    wanted_[slot * types_ + t] = held[t];
  }
  return true;
}

void Targets::take(std::span<const std::uint32_t> counts) {
  for (std::size_t t = 0; t < types_; ++t) {
    ES_CHECK(left_[t] >= counts[t]);
    left_[t] -= counts[t];
  }
}

void Targets::reserve(std::span<const std::uint32_t> counts) {
  for (std::size_t t = 0; t < types_; ++t) left_[t] -= std::min(left_[t], counts[t]);
}

void Targets::add_pinned(const ClusterTable& table, std::size_t slot,
                         std::span<const std::uint32_t> missing) {
  // What it holds is among what pinned jobs keep.
  if (has_queues()) use_.add(queue_of(slot), missing);
  const auto held = table.held(slot);
  targeted_.push_back(slot);
  for (std::size_t t = 0; t < types_; ++t) {
    ES_CHECK(left_[t] >= missing[t]);
    left_[t] -= missing[t];
    // The devices that it holds are not in the supply, so only the missing ones are subtracted from
    // `left_`.
    wanted_[slot * types_ + t] = held[t] + missing[t];
  }
  rank(slot);
}

namespace {

// Grants what the pinned job lacks, if all of it is left.
void set_pinned_target(const ClusterTable& table, std::size_t slot, Targets& targets) {
  // A type of its demand does not exist, so the demand cannot be met now.
  if (!table.rows()[slot].pin_exists) return;
  const auto held = table.held(slot);
  const auto pinned = table.pinned(slot);
  Counts missing(table.types());
  for (std::size_t t = 0; t < missing.size(); ++t)
    missing[t] = pinned[t] > held[t] ? pinned[t] - held[t] : 0;
  // All or nothing, as the rule `pinned` of policy.h demands.
  if (total(missing) > 0 && covers(targets.choices_of(slot), missing))
    targets.add_pinned(table, slot, missing);
}

// Lets the job keep its minimum, or what it has left of it, of its fastest devices.
void keep_minimum(const ClusterTable& table, std::size_t slot, Targets& targets) {
  const auto held = table.held(slot);
  const auto speeds = table.capabilities(slot);
  Counts rest(held.begin(), held.end());
  Counts kept(table.types(), 0);
  const JobRow& row = table.rows()[slot];
  for (std::uint32_t n = 0; n < std::min(row.min_devices, row.held_total); ++n) {
    std::size_t best = rest.size();
    for (std::size_t t = 0; t < rest.size(); ++t)
      if (rest[t] > 0 && (best == rest.size() || speeds[t] > speeds[best])) best = t;
    --rest[best];
    ++kept[best];
  }
  targets.set(slot, kept);
}

}  // namespace

bool has_fixed_targets(const ClusterTable& table) {
  return std::any_of(table.rows().begin(), table.rows().end(), [](const JobRow& row) {
    return row.present && (row.pinned || keeps_minimum(row));
  });
}

void set_fixed_targets(const ClusterTable& table, std::span<const std::size_t> order,
                       Targets& targets) {
  for (const std::size_t slot : order) {
    if (keeps_minimum(table.rows()[slot])) keep_minimum(table, slot, targets);
  }
  for (const std::size_t slot : order)
    if (table.rows()[slot].pinned) set_pinned_target(table, slot, targets);
}

}  // namespace es::scheduler
