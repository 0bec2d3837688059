#pragma once
// Console: where a command prints. Results go to `out`, everything else to `err`.
#include <functional>
#include <ostream>

#include "proto/base/result.h"

namespace es::actors::esctl {

struct Console {
  std::ostream& out;
  std::ostream& err;
  // Columns of the terminal that `err` is; 0 when it is none. Asked before every line, as people
  // resize windows.
  std::function<int()> err_columns;
};

// Standard output and error of this process.
Console process_console();

// Prints the error: a line "esctl: ..." to err and, with `json`, an object {"error", "kind"} to
// out. Returns the exit code of its kind.
int report(const Error& error, bool json, Console& console);

// The exit code of a command that ended so; prints the error, if it is one. A Result holds the exit
// code of a command that printed all there is to say.
int finish(const Status& status, bool json, Console& console);
int finish(const Result<int>& result, bool json, Console& console);

}  // namespace es::actors::esctl
