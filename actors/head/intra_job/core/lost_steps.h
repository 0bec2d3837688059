#pragma once
// LostSteps counts the global steps that members compute again after interruptions. Pure.
#include <cstdint>
#include <utility>

#include "proto/base/ids.h"

namespace es::actors::intra_job {

class LostSteps {
 public:
  // `running`: the head was restarted and members train already.
  explicit LostSteps(bool running) : running_(running) {}

  void go() { running_ = true; }
  // A member has stopped at a common boundary, so no step is begun beyond it.
  void drained() { running_ = false; }

  // Call for every Install: the members of this generation continue from `target`, and `through` is
  // the newest version in the ledger. Returns the number of steps to repeat, for the first Install
  // of a generation only: the step that was under way, and all steps that the ledger has beyond the
  // target.
  std::uint64_t install(Generation generation, Version target, Version through, Version last) {
    if (std::exchange(generation_, generation) == generation) return 0;
    const std::uint64_t under_way = running_ && target < last ? 1 : 0;
    running_ = false;
    const std::uint64_t lost = under_way + (through > target ? through - target : 0);
    total_ += lost;
    return lost;
  }
  std::uint64_t total() const { return total_; }

 private:
  bool running_;
  Generation generation_;  // of the newest Install
  std::uint64_t total_ = 0;
};

}  // namespace es::actors::intra_job
