#include "actors/worker/device/periodic_checkpoint.h"

#include "actors/base/log/log.h"
#include "store/checkpoint/catalog.h"
#include "store/checkpoint/layout.h"
#include "store/checkpoint/new_file.h"
#include "store/path_roots.h"

namespace es::actors::worker {
namespace {

namespace fs = std::filesystem;

Status make_parent(const fs::path& parent) {
  ES_RETURN_IF_ERROR(store::check_place(store::RootKind::kCheckpoints, parent));
  return store::make_directories(store::posix_file_system(), parent);
}

void warn(const std::string& what) {
  log::warning(what);
}

// Removes what dead writers have left. Leftovers that stay cost disk space only, so errors are just
// warnings.
void remove_unfinished(const fs::path& parent) {
  const auto leftovers = store::find_leftovers(parent, store::process_exists);
  if (!leftovers) return warn(leftovers.error().message);
  const auto done = store::remove_leftovers(store::posix_file_system(), *leftovers);
  for (const std::string& line : done.stays) warn("an unfinished checkpoint: " + line);
  for (const std::string& line : done.failed) warn("an unfinished checkpoint stays: " + line);
}

}  // namespace

Result<Written> write_periodic(const Snapshot& snapshot, const fs::path& parent) {
  ES_RETURN_IF_ERROR(make_parent(parent));
  // Leftovers are removed first, so that their space is free for the new checkpoint.
  remove_unfinished(parent);
  return keep_snapshot(snapshot, parent / ("step-" + std::to_string(snapshot.replica->version())));
}

Result<Written> write_version(const Snapshot& snapshot, const WriteVersion& asked) {
  if (asked.make_parent)
    ES_RETURN_IF_ERROR(make_parent(store::normal_path(asked.directory).parent_path()));
  return asked.periodic ? write_periodic(snapshot, asked.directory)
                        : write_snapshot(snapshot, asked.directory);
}

}  // namespace es::actors::worker
