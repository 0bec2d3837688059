#pragma once
// Console: where a command prints. Results go to `out`, everything else goes to `err`.
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>

#include "actors/views/screen.h"
#include "actors/views/table.h"
#include "proto/base/result.h"

namespace es::actors {

struct Console {
  std::ostream& out;
  std::ostream& err;
  // Returns the number of columns if `err` is a terminal, and otherwise 0. It is called before
  // every line, because the user can resize the window.
  std::function<int()> err_columns;
  // Returns the size of the terminal behind `out`, and no value if `out` is not one. May be empty.
  std::function<std::optional<ScreenSize>()> out_screen{};
  // Results may have colours: `out` is a terminal that knows them, and NO_COLOR is not set.
  bool has_colours = false;
};

// The standard output and error of this process.
Console process_console();

// Whether `out` is a terminal.
bool has_screen(const Console& console);

// The number of columns of the terminal behind `out`; kAnyColumns if it is not one.
std::size_t out_columns(const Console& console);

// Writes sequences for the terminal, which are not escaped as texts are.
void write_control(std::ostream& to, std::string_view sequences);

// Prints the lines to `out`, in colours where it has them.
void print(const Screen& screen, Console& console);

// Prints the error: a line "esctl: ..." to err, and with `json` an object {"error", "kind"} to out.
// Returns the exit code of its kind.
int report(const Error& error, bool json, Console& console);

// Returns the exit code for this result of a command, and prints the error if it is one. A Result
// contains the exit code of a command that has printed everything itself.
int finish(const Status& status, bool json, Console& console);
int finish(const Result<int>& result, bool json, Console& console);

}  // namespace es::actors
