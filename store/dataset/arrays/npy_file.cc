#include "store/dataset/arrays/npy_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "store/dataset/field_error.h"
#include "store/path_roots.h"

namespace es::store {

Result<NpyFile> NpyFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: a pipe would wait for its writer.
  auto descriptor = std::make_unique<const FileDescriptor>(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const int code = errno;
  ES_RETURN_IF_ERROR(check_opened(RootKind::kData, path, descriptor->get()));
  if (descriptor->get() < 0) {
    const std::string text = path.string() + ": " + std::generic_category().message(code);
    return code == ENOENT || code == ENOTDIR ? not_found(text) : failure(text);
  }
  return read_from(path.string(), std::move(descriptor));
}

Result<NpyFile> NpyFile::read_from(std::string name,
                                   std::unique_ptr<const FileDescriptor> descriptor) {
  NpyFile file(std::move(name), std::move(descriptor));
  ES_RETURN_IF_ERROR(file.read_header());
  return file;
}

Status NpyFile::read_header() {
  struct stat info {};
  if (::fstat(descriptor_->get(), &info) != 0 || !S_ISREG(info.st_mode))
    return failure(name_ + ": cannot be read: it is no regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  std::string bytes(std::min<std::uint64_t>(size, kNpyPrefixBytes + kNpyLiteralMax), '\0');
  ES_RETURN_IF_ERROR(read_bytes(0, {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()}));
  auto header = read_npy_header(bytes, name_);
  if (!header) return header.error();
  header_ = *std::move(header);
  if (size - header_.data_at == header_.bytes()) return {};
  return bad_field(name_, "size in bytes", std::to_string(size), "the size that its header says");
}

Status NpyFile::read(std::uint64_t first, std::span<std::uint8_t> out) const {
  return read_bytes(header_.data_at + first * header_.row_bytes(), out);
}

Status NpyFile::read_bytes(std::uint64_t at, std::span<std::uint8_t> out) const {
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_->get(), out.data(), out.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return failure(name_ + ": cannot be read: " +
                     (got == 0 ? "it was cut short" : std::generic_category().message(errno)));
    at += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace es::store
