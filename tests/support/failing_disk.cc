// A disk that accepts no writes. It is preloaded into a program (LD_PRELOAD), and while a switch is
// on, it lets every call fail that would change files below one directory. It needs no privileges,
// and can report every error.
//
//   ES_FAILING_DIR     the directory, absolute and without symbolic links
//   ES_FAILING_SWITCH  a file that contains the number of the error, e.g. 28 (ENOSPC); without
//                      this file the switch is off
//
// Both names of each function are defined here, so neither may be an alias of the other.
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The error in the switch file; 0 while it is off.
int switched_on() {
  static const char* const path = std::getenv("ES_FAILING_SWITCH");
  if (path == nullptr) return 0;
  static const auto real_open = next<int (*)(const char*, int, ...)>("open");
  const int before = errno;
  const int file = real_open(path, O_RDONLY | O_CLOEXEC);
  char text[16] = {};
  if (file >= 0) {
    (void)!::read(file, text, sizeof text - 1);
    ::close(file);
  }
  errno = before;
  return std::atoi(text);
}

bool is_below(const char* path) {
  static const char* const directory = std::getenv("ES_FAILING_DIR");
  if (directory == nullptr || path == nullptr) return false;
  const std::size_t length = std::strlen(directory);
  return std::strncmp(path, directory, length) == 0 && (path[length] == '/' || path[length] == 0);
}

bool fails(const char* path) {
  if (!is_below(path)) return false;
  const int error = switched_on();
  if (error != 0) errno = error;
  return error != 0;
}

bool fails(int file) {
  const int error = switched_on();
  if (error == 0) return false;
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const ssize_t length = ::readlink(link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = 0;
  if (!is_below(path)) return false;
  errno = error;
  return true;
}

bool writes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0;
}

}  // namespace

#define ES_OPEN(name)                                                           \
  extern "C" int name(const char* path, int flags, ...) {                       \
    va_list arguments;                                                          \
    va_start(arguments, flags);                                                 \
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0; \
    va_end(arguments);                                                          \
    if (writes(flags) && fails(path)) return -1;                                \
    static const auto real = next<int (*)(const char*, int, ...)>(#name);       \
    return real(path, flags, mode);                                             \
  }
ES_OPEN(open)
ES_OPEN(open64)

#define ES_ON_FILE(result, name, parameters, names)             \
  extern "C" result name parameters {                           \
    if (fails(file)) return -1;                                 \
    static const auto real = next<result(*) parameters>(#name); \
    return real names;                                          \
  }
ES_ON_FILE(ssize_t, write, (int file, const void* bytes, size_t count), (file, bytes, count))
ES_ON_FILE(ssize_t, pwrite, (int file, const void* bytes, size_t count, off_t at),
           (file, bytes, count, at))
ES_ON_FILE(ssize_t, pwrite64, (int file, const void* bytes, size_t count, off64_t at),
           (file, bytes, count, at))
ES_ON_FILE(ssize_t, writev, (int file, const struct iovec* parts, int count), (file, parts, count))
ES_ON_FILE(int, fsync, (int file), (file))
ES_ON_FILE(int, fdatasync, (int file), (file))
ES_ON_FILE(int, ftruncate, (int file, off_t size), (file, size))
ES_ON_FILE(int, ftruncate64, (int file, off64_t size), (file, size))
ES_ON_FILE(int, fallocate, (int file, int mode, off_t at, off_t size), (file, mode, at, size))
ES_ON_FILE(int, fallocate64, (int file, int mode, off64_t at, off64_t size), (file, mode, at, size))

extern "C" int rename(const char* from, const char* to) noexcept {
  if (fails(to)) return -1;
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return real(from, to);
}

extern "C" int mkdir(const char* path, mode_t mode) noexcept {
  if (fails(path)) return -1;
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return real(path, mode);
}
