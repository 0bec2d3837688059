#pragma once
// LostSteps counts the global steps that members compute again after an interruption. Pure.
#include <cstdint>

#include "proto/base/ids.h"

namespace es::actors::intra_job {

class LostSteps {
 public:
  // `running`: the head was restarted and members train already.
  explicit LostSteps(bool running) : running_(running) {}

  void go() { running_ = true; }
  // A member has stopped at a common boundary, so no step is begun beyond it.
  void drained() { running_ = false; }

  // Call for the first Install of a round: the members continue from `target`, and `through` is the
  // newest version in the ledger. Returns the number of steps to repeat: the step that was under
  // way, and all steps that the ledger has beyond the target.
  std::uint64_t install(Version target, Version through, Version last) {
    const std::uint64_t under_way = running_ && target < last ? 1 : 0;
    running_ = false;
    return under_way + (through > target ? through - target : 0);
  }

 private:
  bool running_;
};

}  // namespace es::actors::intra_job
