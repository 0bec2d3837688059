#pragma once
// A replica on its way out of the engine and back in: to a peer that catches up, from a checkpoint
// (snapshot.h: to a checkpoint).
#include <filesystem>

#include "actors/common/kernel_record.h"
#include "actors/data_plane/segment.h"
#include "actors/protocol/messages.h"
#include "gpu/engine.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors::worker {

protocol::VersionDigests digests_of(const gpu::Engine& engine);

// Copies parameters and optimizer state into `segment` and describes the version for a peer.
// REQUIRES: segment.bytes() == export_bytes(engine).
protocol::State export_version(const gpu::Engine& engine, Segment& segment);
std::uint64_t export_bytes(const gpu::Engine& engine);

// Takes over what a peer described. Verifies both digests before anything counts.
// Error: the bytes cannot be read or do not have the digests; the engine is unchanged or its
// replica is replaced by the rejected one, so the caller must not use it (it has not reported
// Ready).
Status import_version(gpu::Engine& engine, const protocol::State& state, SegmentCache& segments);

// Loads a checkpoint into the engine, which trains the job `spec`. Errors: not found, damage (file
// and block named), a checkpoint of another model; refused (check_kernels: other kernels at D0 or
// D1; the engine is unchanged). REQUIRES and leaves the engine as import_version does.
Status load_checkpoint(gpu::Engine& engine, const JobSpec& spec,
                       const std::filesystem::path& directory);

}  // namespace es::actors::worker
