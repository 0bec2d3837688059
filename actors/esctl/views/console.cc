#include "actors/esctl/views/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <ostream>

#include "actors/esctl/views/render_json.h"
#include "actors/program/program.h"

namespace es::actors::esctl {
namespace {

int stderr_columns() {
  constexpr int kColumnsUnknown = 80;
  if (::isatty(STDERR_FILENO) == 0) return 0;
  winsize size{};
  // Some terminals, such as serial ones, do not know their size and report 0.
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kColumnsUnknown;
  return size.ws_col;
}

}  // namespace

// There is one of each in a process, like std::cout and std::cerr. Texts come from heads, files and
// jobs, so they are escaped and a terminal never executes them. The first failed write to `out`
// throws OutputFailed, which ends the command cleanly. After a failed write to `err` the command
// continues, because its work is more important than its messages.
Console process_console() {
  static OutputBuffer out_buffer(STDOUT_FILENO, OutputBuffer::Show::kEscaped);
  static OutputBuffer err_buffer(STDERR_FILENO, OutputBuffer::Show::kEscaped);
  static std::ostream out(&out_buffer), err(&err_buffer);
  out.exceptions(std::ios::badbit);
  return {out, err, stderr_columns};
}

int report(const Error& error, bool json, Console& console) {
  console.err << "esctl: " << error.message << std::endl;
  if (json) console.out << error_json(error) << std::endl;
  return exit_code(error.kind);
}

int finish(const Status& status, bool json, Console& console) {
  return status ? 0 : report(status.error(), json, console);
}

int finish(const Result<int>& result, bool json, Console& console) {
  return result ? *result : report(result.error(), json, console);
}

}  // namespace es::actors::esctl
