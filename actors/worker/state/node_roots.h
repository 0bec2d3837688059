#pragma once
// The directories in which the processes of a node may read and write checkpoints. Its workers and
// its agent have the same ones, so that the agent finds exactly the states that a worker can load.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::actors {

struct NodeDirectories {
  std::vector<std::string> roots;  // of --checkpoint-root; none: every directory is allowed
  std::string rescue;              // empty: none
  std::string run;                 // copies of states on other nodes lie here
  std::string head;                // where the head keeps the states of its jobs; empty: not known
};

// For store::PathRoots::checkpoints. The own directories are created. One that cannot be created is
// left out, because the node is of use without it. Error (usage): a root does not exist.
Result<std::optional<std::vector<std::filesystem::path>>> checkpoint_roots(
    const NodeDirectories& node);

}  // namespace es::actors
