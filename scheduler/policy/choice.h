#pragma once
// Choice: which devices one job is best given out of those that are left.
#include <span>

#include "scheduler/policy/board.h"

namespace es::scheduler {

struct Choice {
  Counts counts;             // empty: nothing that it could run on
  double speed = 0;          // local steps per second
  double finish_s = kNever;  // what best_choice() makes smallest
};

struct ChoiceLimits {
  // A set is worth its devices when speed >= efficiency_min * sum of their capabilities.
  double efficiency_min = 0;
};

// A change must gain so many times the pause that it costs: the devices that the job moves to or
// from make others change as well.
inline constexpr double kPausesToGain = 3;

// The set out of `left` with which the job is done first:
//
//   finish = remaining / speed + kPausesToGain * pause      pause: what it costs to get these
//                                           devices, measured; 0 for those that it holds
//
// Ties to what it holds, then to fewer devices. Keeps the rules of policy.h for what it may be
// granted. Without any known speed: nothing but what it holds, or its minimum of one type. In the
// place of a set that the job refuses comes what it falls back to.
Choice best_choice(const Board& board, const Board::Row& row, std::span<const std::uint32_t> left,
                   const ChoiceLimits& limits);

// Cheap bounds of best_choice(), for jobs that are not pinned. True: it would surely be
// what the job holds (no other set out of `left` could be faster by more than its pause), or
// nothing at all.
bool surely_keeps(const Board& board, const Board::Row& row, std::span<const std::uint32_t> left);
bool surely_nothing(const Board& board, const Board::Row& row, std::span<const std::uint32_t> left);

// All or nothing, for policies that do not scale: max_devices (as many as exist) of the type that
// was asked for, or of the fastest; of what the job refuses, what it falls back to.
Counts gang_of(const Board& board, const Board::Row& row);

// The speed of the job on these devices.
double speed_on(const Board& board, const Board::Row& row, std::span<const std::uint32_t> counts);

}  // namespace es::scheduler
