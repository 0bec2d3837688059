#pragma once
// Copies a replica out of an engine for a peer, and loads one from a peer or a checkpoint. Writing
// a checkpoint is in snapshot.h.
#include <filesystem>

#include "actors/base/data_plane/segment.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/worker/state/kernel_record.h"
#include "gpu/engine/engine.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors::worker {

VersionDigests digests_of(const gpu::Engine& engine);

// Copies the parameters and the optimizer state into `segment`, and describes the version for a
// peer. REQUIRES: segment.bytes() == export_bytes(engine).
protocol::State export_version(const gpu::Engine& engine, Segment& segment);
std::uint64_t export_bytes(const gpu::Engine& engine);

// Loads the version that a peer of the job `spec` described. Both digests are verified before the
// version counts. Error (failure): the bytes cannot be read or have other digests. The engine is
// then unchanged or holds the rejected replica, so the caller must not use its replica (it has not
// reported Ready). Error (refused): the base of a job with adapters cannot be loaded, which another
// peer cannot change.
Status import_version(gpu::Engine& engine, const JobSpec& spec, const protocol::State& state,
                      SegmentCache& segments);

// Loads a checkpoint into the engine, which trains the job `spec`. If the job has adapters, the
// frozen parameters come from the job, as at version 0. Errors: not found; damage (the
// message names file and block); a checkpoint of another model; refused (check_kernels: the
// checkpoint was computed with other kernels at D0 or D1; the engine is then unchanged), also for
// another base, and for errors of load_initial_weights(). After
// other errors the state of the engine is as after an error of import_version.
Status load_checkpoint(gpu::Engine& engine, const JobSpec& spec,
                       const std::filesystem::path& directory);

}  // namespace es::actors::worker
