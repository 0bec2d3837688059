#pragma once
// The order in which the losses of a model make their steps.
//
// A loop of training takes one mini-batch of each EST after the other; each of them is an
// iteration. In iteration i (from 0) the losses j = 0, 1, ... with i % every[j] = 0 make one global
// step each, in this order and with the same mini-batches. So the iteration and the loss of a
// global step are a pure function of `every` and the number of the step. The pattern repeats after
// lcm(every) iterations.
//
// Immutable, cheap to copy.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "proto/base/result.h"

namespace es {

struct LossTurn {
  std::uint64_t iteration = 0;
  std::uint32_t loss = 0;
  bool operator==(const LossTurn&) const = default;
};

class LossTurns {
 public:
  // One loss, which makes a step in each iteration.
  LossTurns() = default;
  // As `every` says; empty: as above. Error (usage): a number is 0, none is 1 (some iterations
  // would have no step), or the pattern is too long.
  static Result<LossTurns> create(std::span<const std::uint32_t> every);

  // Whether `every` was given.
  bool several() const { return pattern_ != nullptr; }

  // The turn of a global step, from 0.
  LossTurn at(std::uint64_t step) const;
  // The global steps of the first iterations.
  std::uint64_t steps_of(std::uint64_t iterations) const;

 private:
  // One period: its steps, and [iteration, and one more]: the steps before it.
  struct Pattern {
    std::vector<LossTurn> turns;
    std::vector<std::uint64_t> before;
  };
  std::shared_ptr<const Pattern> pattern_;  // nullptr: one loss
};

}  // namespace es
