#include "actors/worker/state/saved_state_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

#include "proto/base/file_descriptor.h"
#include "store/checkpoint/catalog.h"
#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/layout.h"
#include "store/checkpoint/removal.h"
#include "store/path_roots.h"

namespace es::actors {
namespace {

namespace fs = std::filesystem;
using protocol::Sight;

constexpr const char* kProbeFile = ".easyscale-probe";

Error system_error(const fs::path& path, const char* what) {
  return failure(path.string() + ": cannot be " + what + ": " + std::strerror(errno));
}

// Only a finding about the files proves that the state is gone. Other errors may be temporary.
FoundState found(const SavedState& state, const Error& error) {
  const bool read = error.kind == ErrorKind::kNotFound || error.kind == ErrorKind::kUsage;
  return {state, read ? Sight::kGone : Sight::kUnclear, error.message};
}

// A parent directory that may not be entered, or a disk that does not answer, proves nothing about
// the state.
Result<store::CheckpointReader> open(const fs::path& directory) {
  std::error_code code;
  (void)fs::status(directory, code);
  if (code && code != std::errc::no_such_file_or_directory && code != std::errc::not_a_directory)
    return failure(directory.string() + ": cannot be read: " + code.message());
  return store::CheckpointReader::open(directory);
}

bool is_same(const SavedState& state, const store::CheckpointHead& head) {
  const VersionDigests digests{head.params_digest, head.state_digest};
  if (head.version != state.version) return false;
  return state.digests == VersionDigests{} || state.digests == digests;
}

FoundState look(const SavedState& state, bool verify) {
  const auto reader = open(state.path);
  if (!reader) return found(state, reader.error());
  if (!is_same(state, reader->head()))
    return {state, Sight::kGone,
            state.path + ": contains another state, of version " +
                std::to_string(reader->head().version)};
  if (verify)
    if (const Status whole = reader->verify(); !whole.ok()) return found(state, whole.error());
  return {state, Sight::kWhole, {}};
}

// Returns the number if `name` is `prefix` and a number and nothing else.
std::optional<std::uint64_t> number_after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || rest != name.data() + name.size()) return std::nullopt;
  return number;
}

void remove_one(const std::string& path, Removed& removed) {
  const auto others = store::remove_checkpoint(store::posix_file_system(), path);
  if (others) {
    removed.paths.push_back(path);
    if (!others->empty()) removed.problems.push_back(store::stays_text(path, *others));
  } else if (others.error().kind != ErrorKind::kNotFound) {
    removed.problems.push_back(others.error().message);
  }
}

void remove_numbered(const StateRemoval& removal, const fs::path& prefix, Removed& removed) {
  const std::string name = prefix.filename().string();
  // All paths are collected first, because removing directories while they are listed may skip
  // some.
  std::vector<std::string> paths;
  std::error_code code;  // a missing directory counts as empty
  for (fs::directory_iterator at(prefix.parent_path(), code), end; !code && at != end;
       at.increment(code)) {
    const std::string path = at->path().string();
    const auto number = number_after(at->path().filename().string(), name);
    if (!number || *number >= removal.below) continue;
    if (std::ranges::find(removal.keep, path) == removal.keep.end()) paths.push_back(path);
  }
  for (const std::string& path : paths) remove_one(path, removed);
}

std::string read_probe(const fs::path& directory) {
  std::ifstream file(directory / kProbeFile);
  return {std::istreambuf_iterator<char>(file), {}};
}

Status write_text(const fs::path& path, const std::string& text) {
  // O_NOFOLLOW: a link with this name must not make the daemon write to a file outside of the
  // directory.
  const FileDescriptor file(::open(
      path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return system_error(path, "written");
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return {};
  // A write that ends early without an error has met a full disk.
  if (written >= 0) errno = ENOSPC;
  return system_error(path, "written");
}

Status make_directory(const fs::path& directory) {
  std::error_code code;
  fs::create_directories(directory, code);
  if (code) return failure(directory.string() + ": cannot be created: " + code.message());
  return {};
}

}  // namespace

void put(wire::SavedState::Builder b, const SavedState& state) {
  b.setPath(state.path);
  b.setVersion(state.version);
  const auto digest = [](wire::Digest::Builder to, const Digest& from) {
    to.setHigh(from.high);
    to.setLow(from.low);
  };
  digest(b.initParams(), state.digests.params);
  digest(b.initState(), state.digests.state);
}

SavedState saved_state_from(wire::SavedState::Reader r) {
  const auto digest = [](wire::Digest::Reader from) {
    return Digest{from.getHigh(), from.getLow()};
  };
  return {r.getPath().cStr(), r.getVersion(), {digest(r.getParams()), digest(r.getState())}};
}

FoundState find_state(const SavedState& state) {
  return look(state, false);
}

FoundState verify_state(const SavedState& state) {
  return look(state, true);
}

Result<std::vector<std::byte>> read_part(const fs::path& directory, std::size_t file,
                                         std::uint64_t offset, std::uint32_t bytes) {
  const fs::path path = directory / store::kCheckpointFiles[file];
  const FileDescriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ES_RETURN_IF_ERROR(store::check_opened(store::RootKind::kCheckpoints, path, opened.get()));
  if (opened.get() < 0) return system_error(path, "read");
  std::vector<std::byte> part(bytes);
  std::size_t filled = 0;
  while (filled < part.size()) {
    const ssize_t got = ::pread(opened.get(), part.data() + filled, part.size() - filled,
                                static_cast<off_t>(offset + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(path, "read");
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  part.resize(filled);
  return part;
}

Result<std::vector<std::uint64_t>> file_sizes(const fs::path& directory) {
  std::vector<std::uint64_t> sizes;
  for (const char* name : store::kCheckpointFiles) {
    std::error_code code;
    sizes.push_back(fs::file_size(directory / name, code));
    if (code) return failure((directory / name).string() + ": cannot be read: " + code.message());
  }
  return sizes;
}

Removed remove_states(const StateRemoval& removal) {
  Removed removed;
  for (const SavedState& state : removal.states) {
    const auto reader = store::CheckpointReader::open(state.path);
    // A directory that cannot be read as a checkpoint is damaged or was partly removed before, so
    // it is removed too. Another state at the same path is kept.
    const bool is_another = reader && !is_same(state, reader->head());
    if (!is_another) remove_one(state.path, removed);
  }
  if (removal.prefix.empty()) return removed;
  const fs::path prefix = removal.prefix;
  remove_numbered(removal, prefix, removed);
  if (!removal.rescue.empty())
    remove_numbered(removal, fs::path(removal.rescue) / prefix.filename(), removed);
  return removed;
}

Status write_probe(const fs::path& directory, const std::string& id) {
  ES_RETURN_IF_ERROR(make_directory(directory));
  return write_text(directory / kProbeFile, id);
}

DirectoryTrial try_directory(const fs::path& directory, const std::string& id) {
  DirectoryTrial trial;
  trial.shared = read_probe(directory) == id;
  // The probe of the head keeps its name. The name of this file contains the process, because
  // several daemons may try a shared directory at the same time.
  const fs::path file = directory / (kProbeFile + ("-" + std::to_string(::getpid())));
  Status tried = make_directory(directory);
  if (tried.ok()) tried = write_text(file, id);
  std::error_code ignored;
  fs::remove(file, ignored);
  if (!tried.ok()) trial.problem = tried.error().message;
  return trial;
}

}  // namespace es::actors
