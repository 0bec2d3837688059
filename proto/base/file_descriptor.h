#pragma once
// FileDescriptor: owns a file descriptor and closes it at the end of its scope. A negative number
// stands for an open() that failed; nothing is closed then. Not thread-safe.
#include <unistd.h>

#include <utility>

namespace es {

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }
  // Gives the descriptor up: the caller closes it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace es
