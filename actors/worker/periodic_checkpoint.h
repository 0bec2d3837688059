#pragma once
// Writing the checkpoint that the head asked for: a new directory of a client's, or the next one of
// the job's own series (actors/intra_job/periodic_checkpoints.h says when).
#include <filesystem>
#include <string>
#include <vector>

#include "actors/worker/version_io.h"
#include "actors/worker/worker_events.h"

namespace es::actors::worker {

// Makes `parent` when it is missing and removes what writers of this machine that have died left in
// it; writes the snapshot there under the first free of step-VERSION, step-VERSION-2, ..., forces
// it to the disk and reads back every block; only then removes the checkpoints at `remove`. What
// cannot be removed is said on standard error and stays. Returns where the new one lies. Errors: as
// store::write_checkpoint; nothing is removed then.
Result<std::filesystem::path> write_periodic(const Snapshot& snapshot,
                                             const std::filesystem::path& parent,
                                             const std::vector<std::string>& remove);

// Writes what WriteVersion asks for, of either kind.
Result<std::filesystem::path> write_version(const Snapshot& snapshot, const WriteVersion& asked);

}  // namespace es::actors::worker
