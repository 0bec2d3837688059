#include "proto/base/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "proto/base/file_descriptor.h"

namespace es {
namespace {

Error unreadable(const std::filesystem::path& path, int code) {
  const std::string message = path.string() + ": cannot be read: " + std::strerror(code);
  // ENOTDIR: a part of the path is a file, so nothing can exist at the path.
  return code == ENOENT || code == ENOTDIR ? not_found(message) : failure(message);
}

}  // namespace

Result<std::string> read_text_file(const std::filesystem::path& path, std::size_t bytes_max) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return unreadable(path, errno);
  constexpr std::size_t kPieceBytes = 64 << 10;
  // The size is not asked for in advance: a pipe and a file of /proc have none.
  std::string text;
  for (;;) {
    const std::size_t before = text.size();
    // One byte more than allowed is requested, so that a file that is too large is noticed.
    const std::size_t piece = std::min(kPieceBytes, bytes_max + 1 - before);
    text.resize(before + piece);
    const ssize_t got = ::read(file.get(), text.data() + before, piece);
    // A read that a signal has interrupted counts as no bytes, and is repeated.
    if (got < 0 && errno != EINTR) return unreadable(path, errno);
    text.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (text.size() > bytes_max)
      return usage_error(path.string() + ": more than " + std::to_string(bytes_max) +
                         " bytes: allowed is at most that");
    if (got == 0) return text;
  }
}

}  // namespace es
