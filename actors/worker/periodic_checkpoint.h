#pragma once
// Writing the checkpoint that the head asked for: a new directory of a client's, or the next one of
// the job's own series (actors/intra_job/periodic_checkpoints.h says when).
#include <filesystem>
#include <string>
#include <vector>

#include "actors/worker/snapshot.h"
#include "actors/worker/worker_events.h"

namespace es::actors::worker {

// Makes `parent` when it is missing and removes what writers of this machine that have died left in
// it; keeps the snapshot there as step-VERSION (keep_snapshot); only then removes the checkpoints
// at `remove`. What cannot be removed is said on standard error and stays. Errors: as
// keep_snapshot; nothing is removed then.
Result<Written> write_periodic(const Snapshot& snapshot, const std::filesystem::path& parent,
                               const std::vector<std::string>& remove);

// Writes what WriteVersion asks for, of either kind.
Result<Written> write_version(const Snapshot& snapshot, const WriteVersion& asked);

}  // namespace es::actors::worker
