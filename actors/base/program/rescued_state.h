#pragma once
// The state that a worker keeps of a job that fails for a reason that can be repaired. It is a
// checkpoint in a directory of its own, whose name begins with this text and ends in its version.
#include <string>

namespace es::actors {

inline std::string rescued_state_prefix(const std::string& job) {
  return job + "-step-";
}

}  // namespace es::actors
