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

Status read_back(const fs::path& directory) {
  const auto reader = store::CheckpointReader::open(directory);
  if (!reader) return reader.error();
  return reader->verify();
}

void warn(const Error& error) {
  std::cerr << "an old checkpoint stays: " + error.message + "\n" << std::flush;
}

}  // namespace

Result<fs::path> write_periodic(const Snapshot& snapshot, const fs::path& parent,
                                const std::vector<std::string>& remove) {
  ES_RETURN_IF_ERROR(make_parent(parent));
  auto path =
      keep_snapshot(snapshot, parent / ("step-" + std::to_string(snapshot.replica.version)));
  if (!path) return path;
  if (const Status whole = read_back(*path); !whole.ok()) return whole.error();
  for (const std::string& old : remove) {
    const Status removed = store::remove_checkpoint(store::posix_file_system(), old);
    if (!removed.ok() && removed.error().kind != ErrorKind::kNotFound) warn(removed.error());
  }
  return path;
}

Result<fs::path> write_version(const Snapshot& snapshot, const WriteVersion& asked) {
  if (asked.periodic) return write_periodic(snapshot, asked.directory, asked.remove);
  ES_RETURN_IF_ERROR(write_snapshot(snapshot, asked.directory));
  return fs::path(asked.directory);
}

}  // namespace es::actors::worker
