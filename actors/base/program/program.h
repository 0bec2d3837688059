#pragma once
// What every program does around its work: it ensures that the standard files are open, that lost
// output is noticed, and that no exception leaves main().
#include <functional>
#include <streambuf>
#include <string>

#include "proto/base/result.h"

namespace es::actors {

// Thrown to end the program with this exit code, where returning the code would be inconvenient,
// for example in an option parser that has answered --help.
struct Ended {
  int code = 0;
};

// A stream could not be written; `error` is the errno value.
struct OutputFailed {
  int error = 0;
};

// Writes to a file descriptor, which it does not own. Throws OutputFailed if bytes cannot be
// written. A std::ostream turns this into badbit, and throws it on if its exceptions() contain
// badbit.
class OutputBuffer : public std::streambuf {
 public:
  enum class Show {
    kAsIs,
    // Characters that a terminal would execute instead of showing become \xNN (proto/base/text.h),
    // except ends of lines and tabs.
    kEscaped,
  };

  OutputBuffer(int fd, Show show) : fd_(fd), show_(show) {}
  // Writes the remaining bytes, as far as possible.
  ~OutputBuffer() override;
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;

  // Writes these bytes unchanged, after the earlier ones. It is meant for terminal sequences
  // of the program itself.
  void write_raw(std::string_view bytes);

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* bytes, std::streamsize count) override;
  int sync() override;

 private:
  void write_pending(std::size_t bytes);
  void write_all(std::string_view bytes);

  const int fd_;
  const Show show_;
  std::string pending_;
};

// Runs `body` and returns the exit code of the program: the result of body, or 1 with one line on
// standard error if an exception left it or standard output could not be written. If the reader of
// a pipe has gone away, nothing is printed, and the code is that of a process that SIGPIPE ended.
//
// Standard files that are closed are opened first, in a way that makes their use an error.
// Otherwise the next file that is opened would get one of their numbers, and printed text would go
// into it.
int run_program(const char* name, const std::function<int()>& body);

// Prints the message of an error on standard error, for a program whose log is not started, and
// returns its exit code.
int refuse(const Error& error);

}  // namespace es::actors
