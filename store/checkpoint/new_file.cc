#include "store/checkpoint/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "store/system_error.h"

namespace es::store {
namespace {

// Renames without replacing a file that was created under the new name meanwhile. On a file system
// without RENAME_NOREPLACE it can be replaced.
Status rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
  if (errno == EEXIST) return refused(to.string() + ": exists already: allowed is a new name");
  if ((errno == EINVAL || errno == ENOSYS) && std::rename(from.c_str(), to.c_str()) == 0) return {};
  return failure(to.string() + ": cannot be made: " + std::generic_category().message(errno));
}

Status write_under(FileSystem& files, const std::filesystem::path& file,
                   const std::function<Status(WritableFile&)>& write) {
  auto out = files.create_file(file);
  if (!out) return out.error();
  ES_RETURN_IF_ERROR(write(**out));
  return (*out)->finish();
}

}  // namespace

Status write_new_file(FileSystem& files, const std::filesystem::path& file,
                      const std::function<Status(WritableFile&)>& write) {
  std::error_code code;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, code)))
    return refused(file.string() + ": exists already: allowed is a new name");
  // Beside the file, because a rename works only within one file system. The process id separates
  // two programs that write the same file.
  const std::filesystem::path partial = file.string() + ".partial-" + std::to_string(::getpid());
  if (std::filesystem::exists(std::filesystem::symlink_status(partial, code)))
    return refused(partial.string() + ": is in the way: allowed is a directory without it");
  Status status = write_under(files, partial, write);
  if (status.ok()) status = rename_to_new(partial, file);
  const bool is_named = status.ok();
  if (is_named) status = sync_name(files, file);
  // An error of the removal is not reported, because the first error is the cause.
  if (!status.ok()) (void)files.remove_file(is_named ? file : partial);
  return status;
}

Status make_directories(FileSystem& files, const std::filesystem::path& directory) {
  std::error_code code;
  // The path "a/b/" has an empty last name, and the first name of a relative path has no parent.
  if (!directory.has_filename())
    return directory.has_relative_path() ? make_directories(files, directory.parent_path())
                                         : Status();
  if (std::filesystem::is_directory(directory, code)) return {};
  ES_RETURN_IF_ERROR(make_directories(files, directory.parent_path()));
  std::filesystem::create_directory(directory, code);
  if (code) return system_failure(directory, "be created", code.value());
  return sync_name(files, directory);
}

}  // namespace es::store
