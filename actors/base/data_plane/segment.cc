#include "actors/base/data_plane/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/file_descriptor.h"

namespace es::actors {
namespace {

std::string error_text(const std::string& segment, const char* what) {
  return "shared memory " + segment + ": " + what + ": " + std::strerror(errno);
}

std::byte* map(int fd, std::uint64_t bytes, int protection) {
  void* memory = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// The size of the memory of this machine. create() checks it first, because the kernel would hand
// out all available memory before it refuses an absurd size.
std::uint64_t physical_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string cannot_take(std::uint64_t bytes) {
  return "cannot take " + std::to_string(bytes >> 20) + " MiB";
}

struct Address {
  std::string path;  // of the owner's file descriptor, under /proc
  std::string label;
};

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

Result<Address> parse_address(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = text.find(':', first == std::string::npos ? first : first + 1);
  if (second == std::string::npos || !is_number(text.substr(0, first)) ||
      !is_number(text.substr(first + 1, second - first - 1)))
    return usage_error("shared memory \"" + text + "\": allowed is PID:FD:LABEL");
  return Address{
      "/proc/" + text.substr(0, first) + "/fd/" + text.substr(first + 1, second - first - 1),
      text.substr(second + 1)};
}

// Returns whether the descriptor refers to anonymous memory with this label. After the owner has
// ended or closed the segment, another process may have the same numbers for another file.
bool has_label(int fd, const std::string& label) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), error);
  return !error && target == "/memfd:" + label + " (deleted)";
}

}  // namespace

std::string segment_label(const JobId& job, Incarnation incarnation, Generation generation,
                          const std::string& part) {
  return "es." + job + "." + std::to_string(incarnation.value) + "." +
         std::to_string(generation.value) + "." + part;
}

Result<std::unique_ptr<Segment>> Segment::create(const std::string& label, std::uint64_t bytes) {
  auto segment = reserve(label, bytes);
  if (!segment) return segment.error();
  ES_RETURN_IF_ERROR((*segment)->allocate());
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::reserve(const std::string& label, std::uint64_t bytes) {
  FileDescriptor fd(::memfd_create(label.c_str(), MFD_CLOEXEC));
  if (fd.get() < 0) return failure(error_text(label, "cannot be created"));
  const bool sized = ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0;
  std::byte* data = sized ? map(fd.get(), bytes, PROT_READ | PROT_WRITE) : nullptr;
  if (data == nullptr) return failure(error_text(label, cannot_take(bytes).c_str()));
  std::string address = std::to_string(::getpid()) + ":" + std::to_string(fd.get()) + ":" + label;
  return std::unique_ptr<Segment>(new Segment(std::move(address), data, bytes, fd.release()));
}

// If memory is missing, this call fails now, whereas a later write would end the process with
// SIGBUS.
Status Segment::allocate() {
  ES_CHECK(owner_fd_ >= 0);
  if (allocated_) return {};
  errno = bytes_ <= physical_memory() ? ::posix_fallocate(owner_fd_, 0, static_cast<off_t>(bytes_))
                                      : ENOMEM;
  allocated_ = errno == 0;
  return allocated_ ? Status() : failure(error_text(address_, cannot_take(bytes_).c_str()));
}

void Segment::release(std::uint64_t offset, std::uint64_t bytes) {
  ES_CHECK(owner_fd_ >= 0 && offset <= bytes_ && bytes <= bytes_ - offset);
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = (offset + page - 1) / page * page;
  // Behind the end of the segment there is nothing that could be needed.
  const std::uint64_t rounding = offset + bytes == bytes_ ? page - 1 : 0;
  const std::uint64_t end = (offset + bytes + rounding) / page * page;
  if (begin >= end) return;
  allocated_ = false;
  ES_CHECK(::fallocate(owner_fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       static_cast<off_t>(begin), static_cast<off_t>(end - begin)) == 0);
}

std::uint64_t Segment::resident_bytes() const {
  struct stat info {};
  ES_CHECK(owner_fd_ >= 0 && ::fstat(owner_fd_, &info) == 0);
  return static_cast<std::uint64_t>(info.st_blocks) * 512;
}

Result<std::unique_ptr<Segment>> Segment::open(const std::string& address) {
  const auto parsed = parse_address(address);
  if (!parsed) return parsed.error();
  // The owner may have closed the segment, and the number may be that of a pipe now. Without
  // O_NONBLOCK this call would then wait for a writer.
  const FileDescriptor fd(::open(parsed->path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return not_found(error_text(address, "cannot be opened"));
  if (!has_label(fd.get(), parsed->label))
    return not_found("shared memory " + address + ": its owner has dropped it");
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failure(error_text(address, "cannot be inspected"));
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  std::byte* data = map(fd.get(), bytes, PROT_READ);
  if (data == nullptr) return failure(error_text(address, "cannot be mapped"));
  // The mapping stays valid after the descriptor is closed, and after the owner has ended.
  return std::unique_ptr<Segment>(new Segment(address, data, bytes, -1));
}

Segment::~Segment() {
  ::munmap(data_, bytes_);
  if (owner_fd_ >= 0) ::close(owner_fd_);
}

std::byte* Segment::data() {
  ES_CHECK(owner_fd_ >= 0);
  return data_;
}

Result<std::span<const std::byte>> SegmentCache::read(const std::string& address,
                                                      std::uint64_t offset, std::uint64_t bytes) {
  auto at = segments_.find(address);
  if (at == segments_.end()) {
    auto opened = Segment::open(address);
    if (!opened) return opened.error();
    at = segments_.emplace(address, *std::move(opened)).first;
  }
  const Segment& segment = *at->second;
  // The numbers come from a message. In this form the comparison cannot overflow.
  if (offset > segment.bytes() || bytes > segment.bytes() - offset)
    return failure("shared memory " + address + ": bytes " + std::to_string(offset) + " to " +
                   std::to_string(offset + bytes) + " are outside of its " +
                   std::to_string(segment.bytes()));
  return std::span<const std::byte>(segment.data() + offset, bytes);
}

}  // namespace es::actors
