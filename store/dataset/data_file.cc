#include "store/dataset/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "store/path_roots.h"

namespace es::store {

Result<DataFile> DataFile::open(const std::filesystem::path& path, const std::string& where) {
  const std::string name = where.empty() ? path.string() : where;
  // O_NONBLOCK: a pipe would wait for its writer.
  auto descriptor = std::make_unique<const FileDescriptor>(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int code = errno;
  ES_RETURN_IF_ERROR(check_opened(RootKind::kData, path, descriptor->get()));
  if (descriptor->get() < 0) {
    const std::string text = name + ": " + std::generic_category().message(code);
    return code == ENOENT || code == ENOTDIR ? not_found(text) : failure(text);
  }
  return adopt(name, std::move(descriptor));
}

Result<DataFile> DataFile::adopt(std::string name,
                                 std::unique_ptr<const FileDescriptor> descriptor) {
  struct stat info {};
  if (::fstat(descriptor->get(), &info) != 0 || !S_ISREG(info.st_mode))
    return failure(name + ": cannot be read: it is no regular file");
  return DataFile(std::move(name), std::move(descriptor), static_cast<std::uint64_t>(info.st_size));
}

Status DataFile::read(std::uint64_t at, std::span<std::uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_->get(), out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    // 0 bytes before the end that was known at opening: the file has become shorter.
    if (got <= 0)
      return failure(name_ + ": cannot be read: " +
                     (got == 0 ? "it was cut short" : std::generic_category().message(errno)));
    at += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace es::store
