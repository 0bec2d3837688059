#pragma once
// Writes a checkpoint that the head has asked for: either into a new directory that a client named,
// or as the next one of the job's own series: actors/head/intra_job/core/periodic_checkpoints.h
// decides when.
#include <filesystem>

#include "actors/worker/core/worker_events.h"
#include "actors/worker/device/snapshot.h"

namespace es::actors::worker {

// Creates `parent` if it is missing and removes what dead writers of this machine have left in it.
// Then it writes the snapshot there as step-VERSION (keep_snapshot). Older checkpoints stay: nodes
// remove them when the job's record with the new one is durable (actors/head/intra_job/core).
// Errors: those of keep_snapshot.
Result<Written> write_periodic(const Snapshot& snapshot, const std::filesystem::path& parent);

// Writes what WriteVersion asks for, of either kind.
Result<Written> write_version(const Snapshot& snapshot, const WriteVersion& asked);

}  // namespace es::actors::worker
