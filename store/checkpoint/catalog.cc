#include "store/checkpoint/catalog.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <system_error>
#include <tuple>

#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/layout.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

constexpr int kLevels = 2;
constexpr std::string_view kPartial = ".partial-";

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

// One file of the three is enough: the others may be what is missing.
bool looks_like_checkpoint(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / kManifestFile, ignored) ||
         fs::exists(directory / kJobTomlFile, ignored) ||
         fs::exists(directory / kDataFile, ignored);
}

Result<std::vector<fs::path>> directories_in(const fs::path& parent) {
  std::vector<fs::path> found;
  std::error_code code;
  fs::directory_iterator entry(parent, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::error_code ignored;
    if (entry->is_directory(ignored)) found.push_back(entry->path());
  }
  if (code) return failure(parent.string() + ": cannot be read: " + code.message());
  return found;
}

std::uint64_t bytes_in(const fs::path& directory) {
  std::uint64_t sum = 0;
  for (const char* name : {kManifestFile, kJobTomlFile, kDataFile}) {
    std::error_code code;
    const std::uint64_t bytes = fs::file_size(directory / name, code);
    if (!code) sum += bytes;
  }
  return sum;
}

CatalogEntry describe(const fs::path& directory, bool verify) {
  CatalogEntry entry{directory, std::nullopt, bytes_in(directory), {}};
  const Result<CheckpointReader> reader = CheckpointReader::open(directory);
  if (!reader) {
    entry.damage = reader.error().message;
    return entry;
  }
  entry.head = reader->head();
  if (!verify) return entry;
  if (const Status status = reader->verify(); !status.ok()) entry.damage = status.error().message;
  return entry;
}

Status collect(const fs::path& directory, int levels, bool verify, std::vector<CatalogEntry>& out) {
  if (looks_like_checkpoint(directory)) {
    out.push_back(describe(directory, verify));
    return {};
  }
  if (levels == 0) return {};
  const Result<std::vector<fs::path>> children = directories_in(directory);
  if (!children) return children.error();
  for (const fs::path& child : *children)
    if (!is_hidden(child)) ES_RETURN_IF_ERROR(collect(child, levels - 1, verify, out));
  return {};
}

auto sort_key(const CatalogEntry& entry) {
  const CheckpointHead head = entry.head.value_or(CheckpointHead{});
  return std::tuple(entry.directory.parent_path(), head.job_name, head.version, entry.directory);
}

// The process id in ".NAME.partial-PID-N"; none in any other name.
std::optional<std::uint64_t> writer_of(const std::string& name) {
  const std::size_t at = name.rfind(kPartial);
  if (!name.starts_with('.') || at == std::string::npos) return std::nullopt;
  const char* begin = name.data() + at + kPartial.size();
  const char* end = name.data() + name.size();
  std::uint64_t pid = 0;
  const auto [rest, error] = std::from_chars(begin, end, pid);
  if (error != std::errc() || rest == end || *rest != '-') return std::nullopt;
  return pid;
}

}  // namespace

Result<std::vector<CatalogEntry>> list_checkpoints(const fs::path& root, bool verify) {
  std::error_code ignored;
  const fs::path path = normal_path(root);
  if (!fs::is_directory(path, ignored)) return not_found(path.string() + ": no such directory");
  std::vector<CatalogEntry> entries;
  ES_RETURN_IF_ERROR(collect(path, kLevels, verify, entries));
  std::sort(entries.begin(), entries.end(),
            [](const CatalogEntry& a, const CatalogEntry& b) { return sort_key(a) < sort_key(b); });
  return entries;
}

std::vector<std::size_t> beyond_newest(const std::vector<CatalogEntry>& entries, std::size_t keep) {
  std::map<std::pair<fs::path, std::string>, std::size_t> kept;
  std::vector<std::size_t> beyond;
  for (std::size_t i = entries.size(); i-- > 0;) {  // newest first
    const CatalogEntry& entry = entries[i];
    if (!entry.damage.empty()) continue;
    if (++kept[{entry.directory.parent_path(), entry.head->job_name}] > keep) beyond.push_back(i);
  }
  std::reverse(beyond.begin(), beyond.end());
  return beyond;
}

Status remove_checkpoint(FileSystem& files, const fs::path& directory) {
  const fs::path path = normal_path(directory);
  if (!looks_like_checkpoint(path)) return not_found(path.string() + ": no checkpoint");
  const fs::path prefix =
      path.parent_path() / ("." + path.filename().string() + std::string(kPartial));
  const Result<fs::path> hidden = files.make_unique_directory(prefix);
  if (!hidden) return hidden.error();
  const Status renamed = files.rename_directory(path, *hidden);  // replaces the empty directory
  const Status removed = files.remove_tree(*hidden);
  return renamed.ok() ? removed : renamed;
}

Result<std::size_t> remove_leftovers(FileSystem& files, const fs::path& parent,
                                     const std::function<bool(std::uint64_t pid)>& alive) {
  const Result<std::vector<fs::path>> directories = directories_in(parent);
  if (!directories) return directories.error();
  std::size_t removed = 0;
  for (const fs::path& directory : *directories) {
    const auto pid = writer_of(directory.filename().string());
    if (!pid || alive(*pid)) continue;
    ES_RETURN_IF_ERROR(files.remove_tree(directory));
    ++removed;
  }
  return removed;
}

bool process_exists(std::uint64_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM;
}

}  // namespace es::store
