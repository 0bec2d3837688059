#pragma once
// Targets: what each job should have, and the decisions that lead there.
//
// A policy fills in targets for the supply of the board, most important job first, as if every
// device could change hands at once. carry_out() turns them into decisions that keep the rules of
// policy.h: devices that are not free yet are called back now and granted by a later decision,
// which comes to the same targets because called-back devices stay in the supply.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "scheduler/policy/board.h"

namespace es::scheduler {

class Targets {
 public:
  Targets() = default;
  explicit Targets(const Board& board) { begin(board); }
  // All jobs are to have nothing; `left` is the supply. Costs what was targeted since the last
  // time.
  void begin(const Board& board);

  // What can still be given.
  const Counts& left() const { return left_; }
  std::span<const std::uint32_t> of(std::size_t slot) const {
    return std::span(wanted_).subspan(slot * types_, types_);
  }
  bool is_nothing(std::size_t slot) const;
  // Replaces the target of the job. REQUIRES: left() and its old target cover the new one.
  void set(std::size_t slot, std::span<const std::uint32_t> counts);
  // The job is to keep what it holds, and has no target yet. False: not all of that is left, and
  // nothing is changed.
  bool keep(const Board& board, std::size_t slot);
  // Jobs that keep what they hold, altogether these devices, without being given targets. REQUIRES:
  // so many are left, and nobody asks for the targets of these jobs.
  void take(std::span<const std::uint32_t> counts);
  // Keeps as many of these as are left from being given to anybody.
  void reserve(std::span<const std::uint32_t> counts);
  // The pinned job is to have so many more than it holds; what it holds is not in the supply.
  void add_pinned(const Board& board, std::size_t slot, std::span<const std::uint32_t> missing);
  // Adds the job to the order of precedence; each job at most once. Jobs that are never added give
  // back what they hold.
  void rank(std::size_t slot) { order_.push_back(slot); }
  const std::vector<std::size_t>& order() const { return order_; }

 private:
  std::size_t types_ = 0;
  Counts left_;
  std::vector<std::uint32_t> wanted_;  // by slot and type
  std::vector<std::size_t> targeted_;  // slots of those that may not be 0
  std::vector<std::size_t> order_;
};

// What comes before any policy: elastic jobs that may not be suspended keep their minimum, then
// pinned jobs that can be served get their demand (others keep what they hold, and reserve
// nothing). `order`: the slots of all jobs, in the order in which these are served.
void place_fixed(const Board& board, std::span<const std::size_t> order, Targets& targets);

// Whether every job can have what makes it fastest out of free devices, while nobody else gives
// anything up: then these grants are the decisions of every policy that scales jobs, and only jobs
// that can be faster are looked at. None: some job must wait or move.
std::optional<Decisions> serve_everybody(const Board& board);

// The decisions that lead from what is held to the targets.
Decisions carry_out(const Board& board, const Targets& targets);
// The same by a caller who knows which jobs hold something and may have no target (`leaving`: their
// slots), and has ranked all those that may have another target than what they hold. Costs only
// these.
Decisions carry_out(const Board& board, const Targets& targets,
                    std::span<const std::size_t> leaving);

}  // namespace es::scheduler
