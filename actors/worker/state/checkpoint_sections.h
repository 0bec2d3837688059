#pragma once
// Names of the checkpoint sections that the training engine fills. store/checkpoint/FORMAT.md
// describes their content.
#include <cstddef>
#include <string>

#include "proto/base/ids.h"

namespace es::actors {

inline constexpr const char* kParamsSection = "params";

// The digest of the parameters that are frozen, as text; only of a job with adapters, whose section
// of parameters has only these.
inline constexpr const char* kBaseSection = "base";

// What the evaluations before the version have decided, as text; only of a job that goes by them.
inline constexpr const char* kDecisionsSection = "decisions";

inline std::string moment_section(std::size_t index) {
  return "moment/" + std::to_string(index);
}

inline std::string context_section(VirtualRank rank) {
  return "context/" + std::to_string(rank);
}

}  // namespace es::actors
