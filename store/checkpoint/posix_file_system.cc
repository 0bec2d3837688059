#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>

#include "store/checkpoint/direct_file.h"
#include "store/checkpoint/file_system.h"
#include "store/directory_sync.h"
#include "store/path_roots.h"
#include "store/system_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// Number of names that are tried for a unique directory. Other processes may have used some of
// them.
constexpr int kNameAttemptsMax = 1000;

class PosixFile final : public WritableFile {
 public:
  PosixFile(int descriptor, fs::path path) : descriptor_(descriptor), path_(std::move(path)) {}
  PosixFile(const PosixFile&) = delete;
  PosixFile& operator=(const PosixFile&) = delete;
  ~PosixFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      // write() may write a part only, for example when the disk is nearly full. The next call then
      // returns the error.
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return system_failure(path_, "be written", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }

  Status finish() override {
    // An error of fsync() is final for this file: the system may drop the pages that it could not
    // write, so a second fsync() could succeed without them.
    if (::fsync(descriptor_) != 0) return system_failure(path_, "be forced to the disk", errno);
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0) return system_failure(path_, "be closed", errno);
    return {};
  }

 private:
  int descriptor_;
  fs::path path_;
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<fs::path> make_unique_directory(const fs::path& prefix) override {
    ES_RETURN_IF_ERROR(check_place(RootKind::kCheckpoints, prefix));
    // Separates the threads of this process. A name that exists was left by an earlier process with
    // the same id.
    static std::atomic<std::uint64_t> counter{0};
    for (int attempt = 0; attempt < kNameAttemptsMax; ++attempt) {
      const fs::path directory = prefix.string() + std::to_string(::getpid()) + "-" +
                                 std::to_string(counter++) + "-" + machine_name();
      if (::mkdir(directory.c_str(), 0777) == 0) return directory;
      if (errno != EEXIST) return system_failure(directory, "be created", errno);
    }
    return system_failure(prefix, "find a new name for a directory", EEXIST);
  }

  Result<std::unique_ptr<WritableFile>> create_file(const fs::path& file) override {
    ES_RETURN_IF_ERROR(check_place(RootKind::kCheckpoints, file));
    // O_EXCL refuses an existing file and a symbolic link in its place.
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) return system_failure(file, "be created", errno);
    return std::unique_ptr<WritableFile>(std::make_unique<PosixFile>(descriptor, file));
  }

  Result<std::unique_ptr<WritableFile>> create_large_file(const fs::path& file) override {
    ES_RETURN_IF_ERROR(check_place(RootKind::kCheckpoints, file));
    return create_direct_file(file);
  }

  Status sync_directory(const fs::path& directory) override { return sync_entries(directory); }

  Status rename_directory(const fs::path& from, const fs::path& to) override {
    // Callers rename within one parent, so the check of the new name covers both.
    ES_RETURN_IF_ERROR(check_place(RootKind::kCheckpoints, to));
    if (std::rename(from.c_str(), to.c_str()) == 0) return {};
    const int code = errno;
    if (code == EEXIST || code == ENOTEMPTY || code == ENOTDIR)
      return refused(to.string() + ": exists already: allowed is a new name");
    return system_failure(from, "be renamed to " + to.string(), code);
  }

  Status remove_file(const fs::path& file) override {
    ES_RETURN_IF_ERROR(check_place(RootKind::kCheckpoints, file));
    // unlink() removes a link and never its target, so the removal cannot leave the directory.
    if (::unlink(file.c_str()) == 0 || errno == ENOENT) return {};
    return system_failure(file, "be removed", errno);
  }

  Status remove_directory(const fs::path& directory) override {
    ES_RETURN_IF_ERROR(check_place(RootKind::kCheckpoints, directory));
    if (::rmdir(directory.c_str()) == 0) return {};
    const int code = errno;
    if (code == EEXIST || code == ENOTEMPTY)
      return refused(directory.string() + ": is not empty: allowed is an empty directory");
    return system_failure(directory, "be removed", code);
  }
};

}  // namespace

Status sync_name(FileSystem& files, const fs::path& path) {
  return files.sync_directory(parent_directory(path));
}

std::string machine_name() {
  constexpr std::size_t kBytesMax = 32;
  char name[kBytesMax + 1] = {};
  ::gethostname(name, kBytesMax);  // a longer name is cut
  for (char* c = name; *c != '\0'; ++c)
    if (!std::isalnum(static_cast<unsigned char>(*c)) && *c != '.') *c = '_';
  return name;
}

FileSystem& posix_file_system() {
  static PosixFileSystem files;
  return files;
}

}  // namespace es::store
