#pragma once
// Copies a replica out of an engine for a peer, and loads one from a peer or a checkpoint. Writing
// a checkpoint is in snapshot.h.
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "actors/base/data_plane/segment.h"
#include "actors/base/protocol/core/messages.h"
#include "actors/worker/state/kernel_record.h"
#include "gpu/engine/engine.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors::worker {

VersionDigests digests_of(const gpu::Engine& engine);

// Copies the parameters and the optimizer state into `segment`, and describes the version for a
// peer. REQUIRES: segment.bytes() == export_bytes(engine), and the engine holds all moments.
protocol::State export_version(const gpu::Engine& engine, Segment& segment);
std::uint64_t export_bytes(const gpu::Engine& engine);

// Loads the version that a peer of the job `spec` described. Both digests are verified before the
// version counts. Error (failure): the bytes cannot be read or have other digests. The engine is
// then unchanged or holds the rejected replica, so the caller must not use its replica (it has not
// reported Ready). Error (refused): the base of a job with adapters cannot be loaded, which another
// peer cannot change. REQUIRES: the engine holds all moments.
Status import_version(gpu::Engine& engine, const JobSpec& spec, const protocol::State& state,
                      SegmentCache& segments);

// Some floats of a version. Their bytes follow each other in this order, without gaps: the
// parameters of each bucket of `params`, with their padding; the frozen parameters that a version
// keeps; for each bucket of `moments` its floats in every array of the optimizer. Both lists are
// ascending.
struct VersionPart {
  std::vector<std::uint32_t> params;
  bool frozen = false;
  std::vector<std::uint32_t> moments;
  bool operator==(const VersionPart&) const = default;
};

std::uint64_t part_bytes(const gpu::Engine& engine, const VersionPart& part);

// A part as its source has exported it. The source and every receiver cut the same buckets.
struct VersionPiece {
  VersionPart part;
  Digest digest;  // of the bytes
  std::span<const std::byte> bytes = {};
};

// Copies the bytes of a part and returns their digest. REQUIRES: the engine holds these moments,
// Engine::replica() may be called, and `out` has part_bytes().
Digest export_part(const gpu::Engine& engine, const VersionPart& part, std::span<std::byte> out);

// What a version has beside its pieces.
struct VersionFrame {
  Version version = 0;
  std::vector<protocol::Bytes> contexts;  // encoded, of all ranks in rank order
};

// Loads a version from pieces of different sources, which together have all parameters that a
// version keeps and all moments that the engine holds, each once. Every piece is verified by its
// digest before the version counts. Errors: as import_version().
Status import_version(gpu::Engine& engine, const JobSpec& spec, const VersionFrame& frame,
                      std::span<const VersionPiece> pieces);

// Replaces floats of the engine's replica by those of pieces, which have no frozen parameters:
// moments of buckets that Engine::hold() has added, or buckets of the next version before
// Engine::commit_update(). All pieces are verified first. Error (failure): a piece has other bytes
// than its digest says, or moments that the engine does not hold; nothing has changed then.
Status import_pieces(gpu::Engine& engine, std::span<const VersionPiece> pieces);

// Loads a checkpoint into the engine, which trains the job `spec`, as far as the engine holds it.
// If the job has adapters, the frozen parameters come from the job, as at version 0. Errors: not
// found; damage (the message names file and block); a checkpoint of another model; refused
// (check_kernels: the checkpoint was computed with other kernels at D0 or D1; the engine is then
// unchanged), also for another base, and for errors of load_initial_weights(). After other errors
// the state of the engine is as after an error of import_version.
Status load_checkpoint(gpu::Engine& engine, const JobSpec& spec,
                       const std::filesystem::path& directory);

}  // namespace es::actors::worker
