#include "actors/views/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <ostream>

#include "actors/base/program/program.h"
#include "actors/views/render_json.h"

namespace es::actors {
namespace {

int stderr_columns() {
  constexpr int kColumnsUnknown = 80;
  if (::isatty(STDERR_FILENO) == 0) return 0;
  winsize size{};
  // Some terminals, such as serial ones, do not know their size and report 0.
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kColumnsUnknown;
  return size.ws_col;
}

std::optional<ScreenSize> stdout_screen() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 0) return {};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
    return ScreenSize{};
  return ScreenSize{size.ws_row, size.ws_col};
}

// https://no-color.org: the variable switches colours off if it is not empty.
bool stdout_has_colours() {
  const char* const off = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  const bool is_off = off != nullptr && *off != '\0';
  return ::isatty(STDOUT_FILENO) != 0 && !is_off && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
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
  return {out, err, stderr_columns, stdout_screen, stdout_has_colours()};
}

void write_control(std::ostream& to, std::string_view sequences) {
  auto* const buffer = dynamic_cast<OutputBuffer*>(to.rdbuf());
  if (buffer == nullptr) {
    to << sequences << std::flush;
  } else if (to.good()) {
    try {
      buffer->write_raw(sequences);
    } catch (const OutputFailed&) {
      // As after any other failed write, the stream of results throws, that of messages does not.
      if ((to.exceptions() & std::ios::badbit) != 0) throw;
      to.setstate(std::ios::badbit);
    }
  }
}

bool has_screen(const Console& console) {
  return console.out_screen && console.out_screen().has_value();
}

std::size_t out_columns(const Console& console) {
  const auto size = console.out_screen ? console.out_screen() : std::nullopt;
  return size ? static_cast<std::size_t>(size->columns) : kAnyColumns;
}

void print(const Screen& screen, Console& console) {
  constexpr int kAllColumns = std::numeric_limits<int>::max();
  if (!console.has_colours) {
    console.out << plain_text(screen);
    return;
  }
  std::string text;
  for (const ScreenLine& line : screen) text += ansi_line(line, kAllColumns) + "\n";
  write_control(console.out, text);
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

}  // namespace es::actors
