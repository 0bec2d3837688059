#pragma once
// The directories of a CheckpointJob request, before it is passed on to the job.
#include <cstdint>
#include <filesystem>

#include "actors/base/gateway/shell/gateway_messages.h"
#include "proto/base/ids.h"
#include "proto/base/result.h"
#include "store/path_roots.h"

namespace es::actors {

// Checks the directories that the client has named against `roots`, or chooses one below
// `checkpoint_dir`, which is created, if it has named none. Returns the request with its
// directories. Errors: a malformed request, or a directory that clients may not use. Reads the
// disk.
Result<Inbound> with_checkpoint_directory(const Inbound& request, const JobId& job,
                                          const store::PathRoots& roots,
                                          const std::filesystem::path& checkpoint_dir,
                                          std::uint64_t unix_ms);

}  // namespace es::actors
