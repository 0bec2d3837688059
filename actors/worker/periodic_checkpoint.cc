#include "actors/worker/periodic_checkpoint.h"

#include <iostream>

#include "store/checkpoint/catalog.h"

namespace es::actors::worker {
namespace {

namespace fs = std::filesystem;

Status make_parent(const fs::path& parent) {
  std::error_code code;
  fs::create_directories(parent, code);
  if (code) return failure(parent.string() + ": cannot be made: " + code.message());
  const auto removed =
      store::remove_leftovers(store::posix_file_system(), parent, store::process_exists);
  return removed ? Status() : Status(removed.error());
}

void warn(const Error& error) {
  std::cerr << "an old checkpoint stays: " + error.message + "\n" << std::flush;
}

}  // namespace

Result<Written> write_periodic(const Snapshot& snapshot, const fs::path& parent,
                               const std::vector<std::string>& remove) {
  ES_RETURN_IF_ERROR(make_parent(parent));
  auto written =
      keep_snapshot(snapshot, parent / ("step-" + std::to_string(snapshot.replica->version())));
  if (!written) return written;
  for (const std::string& old : remove) {
    const Status removed = store::remove_checkpoint(store::posix_file_system(), old);
    if (!removed.ok() && removed.error().kind != ErrorKind::kNotFound) warn(removed.error());
  }
  return written;
}

Result<Written> write_version(const Snapshot& snapshot, const WriteVersion& asked) {
  return asked.periodic ? write_periodic(snapshot, asked.directory, asked.remove)
                        : write_snapshot(snapshot, asked.directory);
}

}  // namespace es::actors::worker
