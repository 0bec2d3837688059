#pragma once
// A version that is being written to a checkpoint while training continues.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/base/protocol/core/messages.h"
#include "actors/worker/state/kernel_record.h"
#include "gpu/engine/frozen_replica.h"
#include "gpu/params/buckets.h"
#include "gpu/params/param_table.h"
#include "proto/base/digest.h"
#include "proto/base/result.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors::worker {

// Supplies floats of a bucket that the replica of a snapshot does not hold: those of array `moment`
// of the optimizer from `offset` on, counted from the beginning of the bucket. It is called on the
// thread that writes the snapshot, in the order of the bytes of the file, and may wait for another
// worker. An error abandons the writing.
using OtherMoments = std::function<Status(std::size_t moment, std::uint32_t bucket,
                                          std::int64_t offset, std::span<float> out)>;

// A snapshot can be written only once, because the version is read from its beginning to its end.
struct Snapshot {
  std::string job_name;
  JobId run;  // the job that wrote it
  std::string job_toml;
  KernelRecord kernels;
  std::optional<Digest> params;            // the digest in the ledger, if it is known
  const gpu::ParamTable* table = nullptr;  // of the engine, which must outlive the writing
  const std::vector<gpu::Bucket>* buckets = nullptr;  // likewise
  Digest frozen;                                      // Engine::frozen_digest()
  std::string decisions;  // of the evaluations before the version; empty: the job has none
  std::shared_ptr<gpu::FrozenReplica> replica;
  OtherMoments other = {};  // empty if the replica holds everything
};

// A checkpoint on the disk.
struct Written {
  std::filesystem::path path;
  VersionDigests digests;
};

// Writes the snapshot to `directory` on the calling thread, which becomes the reader of the frozen
// replica. Errors: those of store::write_checkpoint and of the frozen replica; failure if the
// parameters differ from the ledger.
Result<Written> write_snapshot(const Snapshot& snapshot, const std::filesystem::path& directory);

// Writes the snapshot, reads back every block, and only then gives it the name `directory`. If this
// name is taken, it uses the first free one of DIRECTORY-2, DIRECTORY-3, ... If one of these names
// already belongs to a whole checkpoint with the same digests, that checkpoint is the result.
// Errors: those of write_snapshot, and damage.
Result<Written> keep_snapshot(const Snapshot& snapshot, const std::filesystem::path& directory);

// Computes the digests of the snapshot as write_snapshot() does, and writes nothing. Errors: those
// of write_snapshot() that do not concern the file.
Result<VersionDigests> digests_of(const Snapshot& snapshot);

}  // namespace es::actors::worker
