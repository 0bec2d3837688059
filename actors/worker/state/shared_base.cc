#include "actors/worker/state/shared_base.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <vector>

namespace es::actors::worker {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;

Error system_failure(const std::string& what) {
  return failure(what + ": " + std::strerror(errno));
}

// The memory of a process: "PID FD".
struct Holder {
  long pid = 0;
  int fd = -1;
  std::string path() const { return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd); }
};

std::vector<Holder> parse_holders(const std::string& text) {
  std::vector<Holder> holders;
  std::istringstream lines(text);
  for (Holder h; lines >> h.pid >> h.fd;) holders.push_back(h);
  return holders;
}

bool has_bytes(int fd, std::span<const std::byte> expected) {
  void* const memory = ::mmap(nullptr, expected.size(), PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return false;
  const bool equal = std::memcmp(memory, expected.data(), expected.size()) == 0;
  ::munmap(memory, expected.size());
  return equal;
}

// Memory that is sealed can be mapped by readers only; older kernels look at how it was opened.
int open_to_read(const Holder& holder) {
  return ::open(holder.path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

// Whether this is sealed memory of that size. A process may have ended, and another one may have
// its number.
bool is_memory(int fd, std::size_t bytes) {
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals && ::fstat(fd, &info) == 0 &&
         static_cast<std::size_t>(info.st_size) == bytes;
}

Result<int> make_memory(const std::string& label, std::span<const std::byte> bytes) {
  FileDescriptor fd(::memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return system_failure("memfd_create");
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return system_failure("write to shared memory");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return system_failure("F_ADD_SEALS");
  const int reader = open_to_read({::getpid(), fd.get()});
  if (reader < 0) return system_failure("/proc/self/fd");
  return reader;
}

// A file that one process at a time reads and writes.
class HolderFile {
 public:
  explicit HolderFile(const std::filesystem::path& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {}

  Result<std::vector<Holder>> lock_and_read() {
    if (fd_.get() < 0 || ::flock(fd_.get(), LOCK_EX) != 0) return system_failure("open or flock");
    std::string text(std::size_t{64} << 10, '\0');
    const ssize_t bytes = ::pread(fd_.get(), text.data(), text.size(), 0);
    if (bytes < 0) return system_failure("read");
    text.resize(static_cast<std::size_t>(bytes));
    return parse_holders(text);
  }

  Status write(const std::vector<Holder>& holders) {
    std::string text;
    for (const Holder& h : holders)
      text += std::to_string(h.pid) + ' ' + std::to_string(h.fd) + '\n';
    // A reader stops at the first line that is none, so a write that ends early loses holders only.
    if (::ftruncate(fd_.get(), 0) != 0 ||
        ::pwrite(fd_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
      return system_failure("write");
    return {};
  }

 private:
  FileDescriptor fd_;  // its end releases the lock
};

}  // namespace

Result<std::uint64_t> SharedBase::share(gpu::Engine& engine) {
  const std::span<const std::byte> pages = engine.frozen_pages();
  if (pages.empty()) return std::uint64_t{0};
  const std::string label =
      "base." + engine.frozen_digest().hex() + "." + std::to_string(pages.size());
  if (label != label_) ES_RETURN_IF_ERROR(find_or_make(label, pages));
  if (!engine.share_frozen(memory_->get())) return system_failure("mmap of shared memory");
  return std::uint64_t{pages.size()};
}

Status SharedBase::find_or_make(const std::string& label, std::span<const std::byte> bytes) {
  HolderFile file(directory_ / label);
  const auto holders = file.lock_and_read();
  if (!holders) return holders.error();
  std::vector<Holder> living;
  int found = -1;
  for (const Holder& h : *holders) {
    FileDescriptor fd(open_to_read(h));
    if (fd.get() < 0 || !is_memory(fd.get(), bytes.size())) continue;
    living.push_back(h);
    if (found < 0 && has_bytes(fd.get(), bytes)) found = fd.release();
  }
  if (found < 0) {
    const auto made = make_memory(label, bytes);
    if (!made) return made.error();
    found = *made;
  }
  memory_.emplace(found);
  label_ = label;
  living.push_back({::getpid(), found});
  return file.write(living);
}

}  // namespace es::actors::worker
