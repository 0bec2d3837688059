#pragma once
// LostSteps: how many global steps an interruption makes the members compute again. Pure.
#include <cstdint>

#include "proto/base/ids.h"

namespace es::actors::intra_job {

class LostSteps {
 public:
  // `running`: members train already, for a head that was started again.
  explicit LostSteps(bool running) : running_(running) {}

  void go() { running_ = true; }
  // A member has stopped at a common boundary: no step is begun beyond it.
  void drained() { running_ = false; }

  // The first Install of a round: the members go on from `target`. `through`: the newest version in
  // the ledger. The step that was under way, and all that the ledger has beyond the target.
  std::uint64_t install(Version target, Version through, Version last) {
    const std::uint64_t under_way = running_ && target < last ? 1 : 0;
    running_ = false;
    return under_way + (through > target ? through - target : 0);
  }

 private:
  bool running_;
};

}  // namespace es::actors::intra_job
