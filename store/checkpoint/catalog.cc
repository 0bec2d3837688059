#include "store/checkpoint/catalog.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <fstream>
#include <map>
#include <system_error>
#include <tuple>

#include "store/checkpoint/checkpoint.h"
#include "store/checkpoint/layout.h"
#include "store/checkpoint/removal.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// A job's own series lies at DIRECTORY/JOB/step-N, so a search that begins at DIRECTORY or at one
// JOB finds every checkpoint.
constexpr int kLevels = 2;
constexpr std::string_view kPartial = ".partial-";

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

// One of the three files is enough, because the others may be missing.
bool looks_like_checkpoint(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(directory / kManifestFile, ignored) ||
         fs::exists(directory / kJobTomlFile, ignored) ||
         fs::exists(directory / kDataFile, ignored);
}

struct Children {
  std::vector<fs::path> directories;
  std::vector<fs::path> links;
};

Result<Children> children_of(const fs::path& parent) {
  Children found;
  std::error_code code;
  fs::directory_iterator entry(parent, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code)) {
    std::error_code ignored;
    // The type of the entry itself, not that of a link's target. A link could lead out of the
    // searched directory or form a cycle.
    const fs::file_type type = entry->symlink_status(ignored).type();
    if (type == fs::file_type::directory) found.directories.push_back(entry->path());
    if (type == fs::file_type::symlink) found.links.push_back(entry->path());
  }
  if (code) return failure(parent.string() + ": cannot be read: " + code.message());
  return found;
}

std::uint64_t changed_unix_ms(const fs::path& file) {
  std::error_code code;
  const auto changed = fs::last_write_time(file, code);
  if (code) return 0;
  const auto since_epoch = std::chrono::file_clock::to_sys(changed).time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since_epoch).count());
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
  // A damaged checkpoint is listed too, with its damage, so that a user sees what is on the disk.
  CatalogEntry entry{directory, std::nullopt, bytes_in(directory), {}};
  entry.written_unix_ms = changed_unix_ms(directory / kManifestFile);
  const Result<CheckpointReader> reader = CheckpointReader::open(directory);
  if (!reader) {
    entry.damage = reader.error().message;
    return entry;
  }
  entry.head = reader->head();
  // The time in the manifest is preferred, because a copy of the files changes the date of the
  // file. It is 0 in format 3 only.
  if (entry.head->written_unix_ms != 0) entry.written_unix_ms = entry.head->written_unix_ms;
  if (!verify) return entry;
  if (const Status status = reader->verify(); !status.ok()) entry.damage = status.error().message;
  return entry;
}

// Adds a directory or what is below it. A directory below the root that cannot be read is skipped;
// the other checkpoints are still valid.
void collect(const fs::path& directory, int levels, bool verify, Catalog& out) {
  if (looks_like_checkpoint(directory)) {
    out.entries.push_back(describe(directory, verify));
    return;
  }
  if (levels == 0) return;
  const Result<Children> children = children_of(directory);
  if (!children) {
    out.skipped.push_back({directory, children.error().message, true});
    return;
  }
  for (const fs::path& link : children->links)
    if (!is_hidden(link))
      out.skipped.push_back({link, link.string() + ": a symbolic link, which is not followed"});
  for (const fs::path& child : children->directories)
    if (!is_hidden(child)) collect(child, levels - 1, verify, out);
}

using RunKey = std::pair<fs::path, std::string>;

RunKey run_key(const CatalogEntry& entry) {
  return {entry.directory.parent_path(), entry.run()};
}

// The runs of one directory are ordered by their last checkpoint, and versions are compared last: a
// job that goes back after an audit writes lower versions later, so a higher version is not always
// newer.
void sort_entries(std::vector<CatalogEntry>& entries) {
  std::map<RunKey, std::uint64_t> last_written;
  for (const CatalogEntry& entry : entries) {
    std::uint64_t& last = last_written[run_key(entry)];
    last = std::max(last, entry.written_unix_ms);
  }
  const auto key = [&](const CatalogEntry& entry) {
    return std::tuple(entry.directory.parent_path(), last_written.at(run_key(entry)), entry.run(),
                      entry.written_unix_ms, entry.head ? entry.head->version : 0, entry.directory);
  };
  std::sort(entries.begin(), entries.end(),
            [&](const CatalogEntry& a, const CatalogEntry& b) { return key(a) < key(b); });
}

// Identifies the writer of a ".NAME.partial-PID-N-MACHINE". Earlier versions of EasyScale wrote no
// machine name.
struct Writer {
  std::uint64_t pid = 0;
  std::string machine;
};

std::optional<Writer> writer_of(const std::string& name) {
  // The last occurrence counts, because NAME is chosen by a user and may contain ".partial-"
  // itself.
  const std::size_t at = name.rfind(kPartial);
  if (!name.starts_with('.') || at == std::string::npos) return std::nullopt;
  const char* begin = name.data() + at + kPartial.size();
  const char* end = name.data() + name.size();
  Writer writer;
  std::uint64_t number = 0;
  const auto pid = std::from_chars(begin, end, writer.pid);
  if (pid.ec != std::errc() || pid.ptr == end || *pid.ptr != '-') return std::nullopt;
  // N only makes the name unique, so its value is not used.
  const char* rest = std::from_chars(pid.ptr + 1, end, number).ptr;
  if (rest != end && *rest == '-') writer.machine.assign(rest + 1, end);
  return writer;
}

}  // namespace

std::string CatalogEntry::run() const {
  if (!head) return {};
  return head->run.empty() ? head->job_name : head->run;
}

Result<Catalog> list_checkpoints(const fs::path& root, bool verify) {
  std::error_code ignored;
  const fs::path path = normal_path(root);
  if (!fs::is_directory(path, ignored)) return not_found(path.string() + ": no such directory");
  Catalog catalog;
  collect(path, kLevels, verify, catalog);
  for (const CatalogSkip& skip : catalog.skipped)
    // Below the root an unreadable directory is skipped. If the root itself cannot be read, an
    // empty list would hide that.
    if (skip.path == path) return failure(skip.why);
  sort_entries(catalog.entries);
  return catalog;
}

std::vector<std::size_t> beyond_newest(const std::vector<CatalogEntry>& entries, std::size_t keep) {
  std::map<RunKey, std::size_t> kept;
  std::vector<std::size_t> beyond;
  for (std::size_t i = entries.size(); i-- > 0;) {  // newest first
    const CatalogEntry& entry = entries[i];
    // A damaged checkpoint must not push an undamaged one out of those that are kept.
    if (!entry.damage.empty()) continue;
    if (++kept[run_key(entry)] > keep) beyond.push_back(i);
  }
  std::reverse(beyond.begin(), beyond.end());
  return beyond;
}

Result<std::vector<fs::path>> find_leftovers(const fs::path& parent,
                                             const std::function<bool(std::uint64_t pid)>& alive) {
  const Result<Children> children = children_of(parent);
  if (!children) return children.error();
  std::vector<fs::path> leftovers;
  for (const fs::path& directory : children->directories) {
    const std::optional<Writer> writer = writer_of(directory.filename().string());
    // A process id has a meaning on its own machine only. On a shared file system the writer of
    // another machine may still be running. A name without a machine comes from an earlier version
    // and counts as local.
    if (!writer || alive(writer->pid)) continue;
    if (writer->machine.empty() || writer->machine == machine_name())
      leftovers.push_back(directory);
  }
  return leftovers;
}

LeftoversRemoved remove_leftovers(FileSystem& files, const std::vector<fs::path>& leftovers) {
  LeftoversRemoved result;
  for (const fs::path& directory : leftovers) {
    const auto others = remove_own_files(files, directory);
    if (!others) {
      result.failed.push_back(others.error().message);
    } else if (!others->empty()) {
      result.stays.push_back(stays_text(directory, *others));
    } else {
      result.removed.push_back(directory);
    }
  }
  return result;
}

bool process_exists(std::uint64_t pid) {
  // Signal 0 only tests. EPERM means that the process exists and belongs to another user.
  if (::kill(static_cast<pid_t>(pid), 0) != 0) return errno == EPERM;
  // The file contains "PID (NAME) STATE ...". A zombie (Z) has ended and writes nothing any more.
  std::string text;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text);
  // NAME may contain ')' itself, so the last one ends it.
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || text.compare(name_end, 3, ") Z") != 0;
}

}  // namespace es::store
