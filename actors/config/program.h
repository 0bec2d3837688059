#pragma once
// What every program does around its work: standard files that are there, output that is known to
// have been written, and no exception that leaves main().
#include <functional>
#include <streambuf>
#include <string>

namespace es::actors {

// Thrown to end the program with this code, from where returning it would be in everybody's way:
// a parser of options that has answered --help.
struct Ended {
  int code = 0;
};

// A stream that could not be written, with the system's number for why.
struct OutputFailed {
  int error = 0;
};

// Writes to a file descriptor, which it does not own. Throws OutputFailed where bytes cannot be
// written: a std::ostream takes that for badbit, and passes it on if its exceptions() hold badbit.
class OutputBuffer : public std::streambuf {
 public:
  enum class Show {
    kAsIs,
    // Everything that a terminal would obey instead of showing it becomes \xNN (proto/base/text.h),
    // but the ends of lines and tabs.
    kEscaped,
  };

  OutputBuffer(int fd, Show show) : fd_(fd), show_(show) {}
  // Writes what is left, as far as that is possible.
  ~OutputBuffer() override;
  OutputBuffer(const OutputBuffer&) = delete;
  OutputBuffer& operator=(const OutputBuffer&) = delete;

  // Writes these bytes, after what came before, as they are: sequences of our own for a terminal.
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

// Runs `body` and returns the exit code of the program: body's, or 1 with one line on standard
// error when an exception left it or when standard output could not be written. A reader that went
// away is no error to speak of: then nothing is said, and the code is that of a process that
// SIGPIPE ended. Before that, standard files that are closed are opened so that using them is an
// error: else the next file that is opened would take the place of one of them, and get what is
// printed.
int run_program(const char* name, const std::function<int()>& body);

}  // namespace es::actors
