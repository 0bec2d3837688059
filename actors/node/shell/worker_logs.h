#pragma once
// The logs worker-N.log in the run directory of a node, where N is the incarnation of the worker.
#include <cstddef>
#include <filesystem>
#include <vector>

#include "proto/base/ids.h"

namespace es::actors {

// Removes the logs of the workers that began first, except those that are running, until `kept`
// logs of ended workers are left. Other files are not touched. An error is ignored, because the
// next call tries again.
void remove_old_worker_logs(const std::filesystem::path& run_dir,
                            const std::vector<Incarnation>& running, std::size_t kept);

}  // namespace es::actors
