#pragma once
// Names of the sections of a checkpoint that the training engine fills; what is in them:
// store/checkpoint/FORMAT.md.
#include <cstddef>
#include <string>

#include "proto/base/ids.h"

namespace es::actors {

inline constexpr const char* kParamsSection = "params";

inline std::string moment_section(std::size_t index) {
  return "moment/" + std::to_string(index);
}

inline std::string context_section(VirtualRank rank) {
  return "context/" + std::to_string(rank);
}

}  // namespace es::actors
