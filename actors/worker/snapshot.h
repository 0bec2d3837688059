#pragma once
// A version on its way from the engine to a checkpoint, while training goes on.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "actors/common/kernel_record.h"
#include "actors/protocol/messages.h"
#include "gpu/frozen_replica.h"
#include "gpu/params/param_table.h"
#include "proto/base/digest.h"
#include "proto/base/result.h"
#include "store/checkpoint/checkpoint.h"

namespace es::actors::worker {

// Can be written once: the version is read from its beginning to its end.
struct Snapshot {
  std::string job_name;
  JobId run;  // of the job that wrote it
  std::string job_toml;
  KernelRecord kernels;
  std::optional<Digest> params;            // as the ledger has it, where it is known
  const gpu::ParamTable* table = nullptr;  // of the engine, which must live until it is written
  std::shared_ptr<gpu::FrozenReplica> replica;
};

// A checkpoint on the disk.
struct Written {
  std::filesystem::path path;
  protocol::VersionDigests digests;
};

// Writes it to `directory`, on the calling thread, which is the reader of the frozen replica.
// Errors: those of store::write_checkpoint; of the frozen replica; failure (it has other parameters
// than the ledger says).
Result<Written> write_snapshot(const Snapshot& snapshot, const std::filesystem::path& directory);

// Writes it, reads back every block, and only then names it `directory`, or when that name is taken
// the first free one of DIRECTORY-2, -3, ... Where a whole checkpoint with the same digests has
// such a name already, that is the result. Errors: as write_snapshot, and damage.
Result<Written> keep_snapshot(const Snapshot& snapshot, const std::filesystem::path& directory);

}  // namespace es::actors::worker
