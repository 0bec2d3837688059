#include "actors/base/program/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>

#include "proto/base/text.h"

namespace es::actors {
namespace {

constexpr int kFailed = 1;
constexpr int kReaderGone = 128 + SIGPIPE;
constexpr std::size_t kPendingMax = 16 << 10;

// The order must be ascending, because open() takes the lowest free number.
void open_standard_files() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    const bool is_input = fd == STDIN_FILENO;
    // stdin is opened for writing and the others for reading, so that any use is an error.
    if (::open("/dev/null", is_input ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

void print_error(const std::string& text) {
  const std::string line = text + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

int say(const char* name, const std::string& what) {
  print_error(std::string(name) + ": " + escaped(what));
  return kFailed;
}

int output_failed(const char* name, int error) {
  if (error == EPIPE) return kReaderGone;
  return say(name, std::string("standard output cannot be written: ") + std::strerror(error));
}

// Checks what was written through std::cout and stdio.
int check_standard_output(const char* name, int code) {
  errno = 0;
  std::cout.flush();
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && !std::cout.bad();
  return written ? code : output_failed(name, errno != 0 ? errno : EIO);
}

int run_body(const char* name, const std::function<int()>& body) {
  try {
    return check_standard_output(name, body());
  } catch (const Ended& ended) {
    return check_standard_output(name, ended.code);
  } catch (const OutputFailed& failed) {
    return output_failed(name, failed.error);
  } catch (const std::bad_alloc&) {
    return say(name, "there is not enough memory");
  } catch (const std::exception& error) {
    return say(name, error.what());
  } catch (...) {
    return say(name, "ended by an exception of an unknown type");
  }
}

}  // namespace

OutputBuffer::~OutputBuffer() {
  try {
    write_pending(pending_.size());
  } catch (const OutputFailed&) {
    // A program that has to know about errors has flushed before.
  }
}

void OutputBuffer::write_raw(std::string_view bytes) {
  write_pending(pending_.size());
  write_all(bytes);
}

OutputBuffer::int_type OutputBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char byte = traits_type::to_char_type(c);
  xsputn(&byte, 1);
  return c;
}

std::streamsize OutputBuffer::xsputn(const char* bytes, std::streamsize count) {
  pending_.append(bytes, static_cast<std::size_t>(count));
  if (pending_.size() >= kPendingMax) {
    // The last character may be incomplete, so whole lines are written if there are any.
    const std::size_t line = pending_.rfind('\n');
    write_pending(line == std::string::npos ? pending_.size() : line + 1);
  }
  return count;
}

int OutputBuffer::sync() {
  write_pending(pending_.size());
  return 0;
}

// Bytes that cannot be written are dropped. Otherwise they could be written twice, or fail again at
// the end of the program.
void OutputBuffer::write_pending(std::size_t bytes) {
  const std::string text = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  write_all(show_ == Show::kEscaped ? escaped(text, "\n\t") : text);
}

void OutputBuffer::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw OutputFailed{errno};
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

int run_program(const char* name, const std::function<int()>& body) {
  open_standard_files();
  return run_body(name, body);
}

int refuse(const Error& error) {
  print_error(escaped(error.message, "\n"));
  return exit_code(error.kind);
}

}  // namespace es::actors
