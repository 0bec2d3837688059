#include "actors/data_plane/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "proto/base/check.h"

namespace es::actors {
namespace {

std::string error_text(const std::string& name, const char* what) {
  return "shared memory " + name + ": " + what + ": " + std::strerror(errno);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::byte* map(int fd, std::uint64_t bytes, int protection) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

}  // namespace

std::string segment_name(const JobId& job, Incarnation incarnation, Generation generation,
                         const std::string& part) {
  return "/es." + job + "." + std::to_string(incarnation.value) + "." +
         std::to_string(generation.value) + "." + part;
}

int remove_segments_of(const JobId& job, Incarnation incarnation) {
  const std::string prefix = "es." + job + "." + std::to_string(incarnation.value) + ".";
  int removed = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && ::shm_unlink(("/" + name).c_str()) == 0) ++removed;
  }
  return removed;
}

Result<std::unique_ptr<Segment>> Segment::create(const std::string& name, std::uint64_t bytes) {
  const FileDescriptor fd(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
  if (fd.get() < 0) return failure(error_text(name, "cannot be created"));
  // posix_fallocate, not ftruncate alone: a full /dev/shm is an error now, not a SIGBUS later.
  const int reserved = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  std::byte* data = reserved == 0 ? map(fd.get(), bytes, PROT_READ | PROT_WRITE) : nullptr;
  if (data == nullptr) {
    if (reserved != 0) errno = reserved;
    const Error error = failure(error_text(
        name, ("cannot take " + std::to_string(bytes >> 20) + " MiB (see df /dev/shm)").c_str()));
    ::shm_unlink(name.c_str());
    return error;
  }
  return std::unique_ptr<Segment>(new Segment(name, data, bytes, true));
}

Result<std::unique_ptr<Segment>> Segment::open(const std::string& name) {
  const FileDescriptor fd(::shm_open(name.c_str(), O_RDONLY, 0));
  if (fd.get() < 0) return not_found(error_text(name, "cannot be opened"));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failure(error_text(name, "cannot be inspected"));
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  std::byte* data = map(fd.get(), bytes, PROT_READ);
  if (data == nullptr) return failure(error_text(name, "cannot be mapped"));
  return std::unique_ptr<Segment>(new Segment(name, data, bytes, false));
}

Segment::~Segment() {
  ::munmap(data_, bytes_);
  if (owner_) ::shm_unlink(name_.c_str());
}

std::byte* Segment::data() {
  ES_CHECK(owner_);
  return data_;
}

Result<std::span<const std::byte>> SegmentCache::read(const std::string& name,
                                                      std::uint64_t offset, std::uint64_t bytes) {
  auto at = segments_.find(name);
  if (at == segments_.end()) {
    auto opened = Segment::open(name);
    if (!opened) return opened.error();
    at = segments_.emplace(name, *std::move(opened)).first;
  }
  const Segment& segment = *at->second;
  if (offset > segment.bytes() || bytes > segment.bytes() - offset)
    return failure("shared memory " + name + ": bytes " + std::to_string(offset) + " to " +
                   std::to_string(offset + bytes) + " are outside of its " +
                   std::to_string(segment.bytes()));
  return std::span<const std::byte>(segment.data() + offset, bytes);
}

}  // namespace es::actors
