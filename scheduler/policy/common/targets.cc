#include "scheduler/policy/common/targets.h"

#include <algorithm>

#include "proto/base/check.h"
#include "scheduler/policy/common/choice.h"

namespace es::scheduler {
namespace {

using Row = Board::Row;

bool covers(std::span<const std::uint32_t> a, std::span<const std::uint32_t> b) {
  for (std::size_t t = 0; t < a.size(); ++t)
    if (a[t] < b[t]) return false;
  return true;
}

std::uint32_t total(std::span<const std::uint32_t> counts) {
  std::uint32_t sum = 0;
  for (const std::uint32_t c : counts) sum += c;
  return sum;
}

// One call of carry_out().
class Carrier {
 public:
  Carrier(const Board& board, const Targets& targets)
      : board_(board),
        targets_(targets),
        free_(board.free()),
        missing_(board.types(), 0),
        coming_(board.types(), 0),
        add_(board.types(), 0),
        drop_(board.types(), 0) {}

  Decisions run(std::span<const std::size_t> leaving) {
    for (const std::size_t slot : targets_.order()) move(slot);
    for (const std::size_t slot : leaving)
      if (targets_.is_nothing(slot)) leave(slot);
    for (auto at = deferred_.rbegin(); at != deferred_.rend(); ++at) make_room(*at);
    return std::move(result_);
  }

 private:
  bool compare(std::size_t slot) {
    const auto held = board_.held(slot);
    const auto wanted = targets_.of(slot);
    for (std::size_t t = 0; t < held.size(); ++t) {
      add_[t] = wanted[t] > held[t] ? wanted[t] - held[t] : 0;
      drop_[t] = held[t] > wanted[t] ? held[t] - wanted[t] : 0;
    }
    return total(add_) + total(drop_) > 0;
  }

  void move(std::size_t slot) {
    if (targets_.is_nothing(slot) || !compare(slot) || !may_change(board_.rows()[slot])) return;
    if (covers(free_, add_)) {
      for (std::size_t t = 0; t < add_.size(); ++t) free_[t] -= add_[t];
      if (total(add_) > 0) result_.grants.push_back({slot, board_.to_set(add_)});
      shrink(slot);
      return;
    }
    if (total(drop_) > 0) deferred_.push_back({slot, missing_});
    for (std::size_t t = 0; t < add_.size(); ++t) {
      const std::uint32_t kept = std::min(free_[t], add_[t]);
      free_[t] -= kept;
      missing_[t] += add_[t] - kept;
    }
  }

  // The job gives back all that it holds.
  void leave(std::size_t slot) {
    if (board_.rows()[slot].pinned || !board_.rows()[slot].may_suspend) return;
    compare(slot);
    shrink(slot);
  }

  // Whether add_ and drop_ keep the rules of policy.h. A change that does not is omitted from this
  // decision. It waits for returning devices or for a job to settle, and each of these causes
  // another decision.
  bool may_change(const Row& row) const {
    if (row.pinned) return true;
    const std::uint32_t kept = row.held_total - total(drop_);
    const std::uint32_t after = kept + total(add_);
    if (after < row.min_devices) return false;
    if (total(add_) == 0) return true;
    if (after > row.max_devices || (!row.mix_types && used_types(row.slot) > 1)) return false;
    if (row.held_total > 0 && row.held_total < row.min_devices) return after == row.min_devices;
    if (row.held_total > 0 && !row.settled) return false;
    return kept == 0 || covers(board_.room(row.slot), add_);
  }

  std::size_t used_types(std::size_t slot) const {
    const auto wanted = targets_.of(slot);
    return wanted.size() - static_cast<std::size_t>(std::count(wanted.begin(), wanted.end(), 0U));
  }

  void shrink(std::size_t slot) {
    if (total(drop_) == 0) return;
    for (std::size_t t = 0; t < drop_.size(); ++t) coming_[t] += drop_[t];
    result_.shrinks.push_back({slot, board_.to_set(drop_)});
  }

  // A job that shall have other devices and waits for some of them.
  struct Deferred {
    std::size_t slot;
    Counts missing;  // what more important jobs wait for
  };

  // The job keeps what it has in the meantime, unless a more important job lacks that. So of two
  // jobs that want each other's devices the less important one releases its devices first.
  void make_room(const Deferred& deferred) {
    const std::size_t slot = deferred.slot;
    compare(slot);
    const Row& row = board_.rows()[slot];
    bool needed = false;
    for (std::size_t t = 0; t < drop_.size(); ++t)
      needed = needed || (drop_[t] > 0 && deferred.missing[t] > coming_[t]);
    if (!needed) return;
    if (row.held_total - total(drop_) < row.min_devices) {
      if (!row.may_suspend) return;
      const auto held = board_.held(slot);
      drop_.assign(held.begin(), held.end());
    }
    shrink(slot);
  }

  const Board& board_;
  const Targets& targets_;
  Counts free_;
  Counts missing_;     // devices that ranked jobs wait for, beyond the free ones
  Counts coming_;      // devices called back by this decision
  Counts add_, drop_;  // change of the job that is looked at
  std::vector<Deferred> deferred_;
  Decisions result_;
};

}  // namespace

void Targets::begin(const Board& board) {
  if (types_ != board.types()) {
    types_ = board.types();
    wanted_.clear();
    targeted_.clear();
  }
  for (const std::size_t slot : targeted_)
    std::fill_n(wanted_.begin() + static_cast<std::ptrdiff_t>(slot * types_), types_, 0U);
  targeted_.clear();
  wanted_.resize(types_ * board.rows().size(), 0);
  left_ = board.supply();
  order_.clear();
}

bool Targets::is_nothing(std::size_t slot) const {
  return total(of(slot)) == 0;
}

void Targets::set(std::size_t slot, std::span<const std::uint32_t> counts) {
  targeted_.push_back(slot);
  for (std::size_t t = 0; t < types_; ++t) {
    std::uint32_t& wanted = wanted_[slot * types_ + t];
    left_[t] += wanted;
    ES_CHECK(left_[t] >= counts[t]);
    left_[t] -= counts[t];
    wanted = counts[t];
  }
}

bool Targets::keep(const Board& board, std::size_t slot) {
  const auto held = board.held(slot);
  if (!covers(left_, held)) return false;
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

void Targets::add_pinned(const Board& board, std::size_t slot,
                         std::span<const std::uint32_t> missing) {
  const auto held = board.held(slot);
  targeted_.push_back(slot);
  for (std::size_t t = 0; t < types_; ++t) {
    ES_CHECK(left_[t] >= missing[t]);
    left_[t] -= missing[t];
    wanted_[slot * types_ + t] = held[t] + missing[t];
  }
  rank(slot);
}

namespace {

void place_pinned(const Board& board, std::size_t slot, Targets& targets) {
  if (!board.rows()[slot].pin_exists) return;
  const auto held = board.held(slot);
  const auto pinned = board.pinned(slot);
  Counts missing(board.types());
  for (std::size_t t = 0; t < missing.size(); ++t)
    missing[t] = pinned[t] > held[t] ? pinned[t] - held[t] : 0;
  if (total(missing) > 0 && covers(targets.left(), missing))
    targets.add_pinned(board, slot, missing);
}

// Lets the job keep its minimum, of its fastest devices.
void keep_minimum(const Board& board, std::size_t slot, Targets& targets) {
  const auto held = board.held(slot);
  const auto speeds = board.capabilities(slot);
  Counts rest(held.begin(), held.end());
  Counts kept(board.types(), 0);
  for (std::uint32_t n = 0; n < board.rows()[slot].min_devices; ++n) {
    std::size_t best = rest.size();
    for (std::size_t t = 0; t < rest.size(); ++t)
      if (rest[t] > 0 && (best == rest.size() || speeds[t] > speeds[best])) best = t;
    --rest[best];
    ++kept[best];
  }
  targets.set(slot, kept);
}

}  // namespace

void place_fixed(const Board& board, std::span<const std::size_t> order, Targets& targets) {
  for (const std::size_t slot : order) {
    const Row& row = board.rows()[slot];
    if (!row.pinned && !row.may_suspend && row.held_total >= row.min_devices)
      keep_minimum(board, slot, targets);
  }
  for (const std::size_t slot : order)
    if (board.rows()[slot].pinned) place_pinned(board, slot, targets);
}

std::optional<Decisions> serve_everybody(const Board& board) {
  Counts left = board.free();
  std::vector<Change> grants;
  for (const auto& [number, slot] : board.hungry()) {
    const Row& row = board.rows()[slot];
    if (row.pinned || row.held_total > 0) return std::nullopt;
    const Choice choice = best_choice(board, row, left, {});
    if (choice.speed < row.best_speed * (1 - 1e-9)) return std::nullopt;
    for (std::size_t t = 0; t < left.size(); ++t) left[t] -= choice.counts[t];
    grants.push_back({slot, board.to_set(choice.counts)});
  }
  return Decisions{std::move(grants), {}};
}

Decisions carry_out(const Board& board, const Targets& targets) {
  std::vector<std::size_t> holders;
  for (const Row& row : board.rows())
    if (row.held_total > 0) holders.push_back(row.slot);
  return carry_out(board, targets, holders);
}

Decisions carry_out(const Board& board, const Targets& targets,
                    std::span<const std::size_t> leaving) {
  return Carrier(board, targets).run(leaving);
}

}  // namespace es::scheduler
