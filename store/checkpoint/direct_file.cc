#include "store/checkpoint/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/path_roots.h"
#include "store/system_error.h"

namespace es::store {
namespace {

namespace fs = std::filesystem;

// One block of a checkpoint (kCheckpointBlockBytes), and a multiple of kDirectAlignment.
constexpr std::size_t kBufferBytes = 1 << 20;

std::size_t whole_units(std::size_t bytes) {
  return bytes / kDirectAlignment * kDirectAlignment;
}

bool is_aligned(const std::byte* address) {
  return reinterpret_cast<std::uintptr_t>(address) % kDirectAlignment == 0;
}

// Opens with O_DIRECT if the file system supports it.
int open_direct(const fs::path& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0666);
  if (descriptor >= 0 || errno != EINVAL) return descriptor;
  // Some file systems create the file before they find that they do not support O_DIRECT. So the
  // second attempt omits O_EXCL.
  return ::open(path.c_str(), (flags & ~O_EXCL) | O_CLOEXEC, 0666);
}

// Switches to ordinary transfers. Returns false if they were ordinary already, or the system
// refuses.
bool leave_direct(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0 &&
         ::fcntl(descriptor, F_SETFL, flags & ~O_DIRECT) == 0;
}

class DirectFile final : public WritableFile {
 public:
  DirectFile(int descriptor, fs::path path)
      : descriptor_(descriptor), path_(std::move(path)), buffer_(kBufferBytes) {}
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;
  ~DirectFile() override {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  Status append(std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      // O_DIRECT needs aligned addresses and whole units. An aligned block is written from where it
      // is; other bytes pass through the buffer.
      std::size_t taken =
          buffered_ == 0 && is_aligned(bytes.data()) ? whole_units(bytes.size()) : 0;
      if (taken != 0) {
        ES_RETURN_IF_ERROR(write(bytes.first(taken)));
      } else {
        taken = std::min(bytes.size(), kBufferBytes - buffered_);
        std::memcpy(buffer_.bytes().data() + buffered_, bytes.data(), taken);
        buffered_ += taken;
        if (buffered_ == kBufferBytes) ES_RETURN_IF_ERROR(write_buffered(kBufferBytes));
      }
      bytes = bytes.subspan(taken);
    }
    return {};
  }

  Status finish() override {
    // Everything before the last incomplete unit is written directly. The order matters: the tail
    // can be written by ordinary transfers only, and these are switched on for the rest of the
    // file.
    const std::size_t whole = whole_units(buffered_);
    const std::size_t tail = buffered_ - whole;
    ES_RETURN_IF_ERROR(write_buffered(whole));
    if (tail != 0) {
      // The tail is not a whole unit, so O_DIRECT would refuse it.
      // The result is not tested: if the transfers are ordinary already, this is correct, and if
      // the system refuses the change, the write reports the error.
      leave_direct(descriptor_);
      ES_RETURN_IF_ERROR(write(buffer_.bytes().subspan(whole, tail)));
    }
    // Also needed after direct writes: they bypass the page cache, but the size of the file and the
    // cache of the disk are not forced out by them.
    if (::fsync(descriptor_) != 0) return system_failure(path_, "be forced to the disk", errno);
    // The descriptor is invalid after close() even if close() fails, so the destructor must not
    // close it again.
    const int descriptor = std::exchange(descriptor_, -1);
    if (::close(descriptor) != 0) return system_failure(path_, "be closed", errno);
    return {};
  }

 private:
  Status write_buffered(std::size_t bytes) {
    // Set before the write, because a file with a failed write is given up and not written again.
    buffered_ = 0;
    return write(buffer_.bytes().first(bytes));
  }

  Status write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      // EINVAL has two causes: the device has larger units, or the system has written only a part
      // of the bytes and the next address is not aligned. Ordinary transfers solve both.
      if (written < 0 && errno == EINVAL && leave_direct(descriptor_)) continue;
      if (written < 0) return system_failure(path_, "be written", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
    return {};
  }

  int descriptor_;
  fs::path path_;
  DirectBuffer buffer_;
  std::size_t buffered_ = 0;  // bytes in the buffer that have not been written
};

}  // namespace

Result<std::unique_ptr<WritableFile>> create_direct_file(const fs::path& path) {
  const int descriptor = open_direct(path, O_WRONLY | O_CREAT | O_EXCL);
  if (descriptor < 0) return system_failure(path, "be created", errno);
  return std::unique_ptr<WritableFile>(std::make_unique<DirectFile>(descriptor, path));
}

DirectReader::DirectReader(int descriptor, fs::path path)
    : descriptor_(descriptor), path_(std::move(path)), buffer_(kBufferBytes) {}

DirectReader::DirectReader(DirectReader&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      path_(std::move(other.path_)),
      buffer_(std::move(other.buffer_)),
      rest_(std::exchange(other.rest_, {})) {}

DirectReader::~DirectReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<DirectReader> DirectReader::open(const fs::path& path) {
  const int descriptor = open_direct(path, O_RDONLY);
  const int code = errno;
  const Status allowed = check_opened(RootKind::kCheckpoints, path, descriptor);
  if (descriptor < 0) return allowed.ok() ? open_failure(path, code) : allowed.error();
  // The reader is made before the check is evaluated, so that its destructor closes a descriptor
  // that is refused.
  DirectReader reader(descriptor, path);
  if (!allowed.ok()) return allowed.error();
  return reader;
}

Result<std::span<const std::byte>> DirectReader::next(std::uint64_t bytes_max) {
  // At the end of the file fill() leaves `rest_` empty, so the caller receives no bytes.
  if (rest_.empty()) ES_RETURN_IF_ERROR(fill());
  const auto taken = rest_.first(std::min<std::uint64_t>(bytes_max, rest_.size()));
  rest_ = rest_.subspan(taken.size());
  return taken;
}

Status DirectReader::fill() {
  for (;;) {
    const ssize_t got = ::read(descriptor_, buffer_.bytes().data(), kBufferBytes);
    if (got < 0 && errno == EINTR) continue;
    // As in DirectFile::write: after a partial read the position in the file may not be aligned.
    if (got < 0 && errno == EINVAL && leave_direct(descriptor_)) continue;
    if (got < 0) return system_failure(path_, "be read", errno);
    rest_ = buffer_.bytes().first(static_cast<std::size_t>(got));
    return {};
  }
}

}  // namespace es::store
