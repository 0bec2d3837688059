#include "store/checkpoint/removal.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <system_error>

#include "store/checkpoint/layout.h"
#include "store/checkpoint/manifest.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

// The manifest is first. Once it is removed, the directory is no longer a checkpoint, even if a
// later removal fails.
constexpr std::array<const char*, 3> kOwnFiles{kManifestFile, kJobTomlFile, kDataFile};

bool is_own(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.symlink_status(ignored).type() == fs::file_type::regular &&
         std::ranges::find(kOwnFiles, entry.path().filename().string()) != kOwnFiles.end();
}

// Names of the entries that no writer of checkpoints has created.
Result<Names> others_in(const fs::path& directory) {
  Names others;
  std::error_code code;
  fs::directory_iterator entry(directory, code);
  for (; !code && entry != fs::directory_iterator(); entry.increment(code))
    // A link or a directory with one of the three names was not made by a writer, so it counts as
    // another's and stays.
    if (!is_own(*entry)) others.push_back(entry->path().filename().string());
  if (code) return failure(directory.string() + ": cannot be read: " + code.message());
  std::ranges::sort(others);
  return others;
}

bool is_manifest(const fs::path& file) {
  std::error_code ignored;
  if (fs::symlink_status(file, ignored).type() != fs::file_type::regular) return false;
  std::string begin(kManifestFirstWord.size(), '\0');
  std::ifstream(file, std::ios::binary).read(begin.data(), std::ssize(begin));
  return begin == kManifestFirstWord;
}

Error no_checkpoint(const fs::path& path) {
  return not_found(path.string() + ": no checkpoint");
}

Status check_removable(const fs::path& path) {
  std::error_code ignored;
  const fs::file_type type = fs::symlink_status(path, ignored).type();
  if (type == fs::file_type::symlink)
    return refused(path.string() +
                   ": is a symbolic link, which is not followed to remove anything");
  const bool any =
      type == fs::file_type::directory && std::ranges::any_of(kOwnFiles, [&](const char* name) {
        return fs::exists(fs::symlink_status(path / name, ignored));
      });
  if (!any) return no_checkpoint(path);
  // A directory may contain a file named "data" by chance. Only the first word of a manifest shows
  // that EasyScale wrote it.
  if (is_manifest(path / kManifestFile)) return {};
  return refused(path.string() + ": has no manifest of a checkpoint, so it is not removed");
}

}  // namespace

Result<Names> remove_own_files(FileSystem& files, const fs::path& directory) {
  const Result<Names> others = others_in(directory);
  if (!others) return others;
  for (const char* name : kOwnFiles) {
    // One of the three names, but not a plain file.
    if (std::ranges::find(*others, name) != others->end()) continue;
    ES_RETURN_IF_ERROR(files.remove_file(directory / name));
  }
  if (!others->empty()) return others;
  const Status removed = files.remove_directory(directory);
  if (removed.ok()) return Names();
  if (removed.error().kind != ErrorKind::kRefused) return removed.error();
  return others_in(directory);  // another process created something in between
}

Result<Names> remove_checkpoint(FileSystem& files, const fs::path& directory) {
  const fs::path path = normal_path(directory);
  ES_RETURN_IF_ERROR(check_removable(path));
  const Result<Names> others = others_in(path);
  if (!others) return others;
  // The directory has to stay with the other files under its own name, so it cannot be renamed away
  // first.
  if (!others->empty()) return remove_own_files(files, path);
  const fs::path prefix = path.parent_path() / ("." + path.filename().string() + ".partial-");
  const Result<fs::path> hidden = files.make_unique_directory(prefix);
  if (!hidden) return hidden.error();
  // rename() replaces an empty directory, so the unique name stays reserved for this process.
  if (const Status renamed = files.rename_directory(path, *hidden); !renamed.ok()) {
    (void)files.remove_directory(*hidden);
    // Another node that has the same disk may have removed it in between.
    std::error_code ignored;
    return fs::exists(path, ignored) ? renamed.error() : no_checkpoint(path);
  }
  Result<Names> left = remove_own_files(files, *hidden);
  // Something was created in it between the look and the rename. It belongs to a user and must not
  // stay under a hidden name.
  if (left && !left->empty()) ES_RETURN_IF_ERROR(files.rename_directory(*hidden, path));
  return left;
}

std::string stays_text(const fs::path& directory, const Names& others) {
  constexpr std::size_t kNamed = 3;
  std::string text = directory.string() + ": other files stay in it: ";
  for (std::size_t i = 0; i < std::min(kNamed, others.size()); ++i)
    text += (i == 0 ? "" : ", ") + others[i];
  return text + (others.size() > kNamed ? ", ..." : "");
}

}  // namespace es::store
