#pragma once
// Console: where a command prints. Results go to `out`, everything else goes to `err`.
#include <functional>
#include <ostream>

#include "proto/base/result.h"

namespace es::actors::esctl {

struct Console {
  std::ostream& out;
  std::ostream& err;
  // Returns the number of columns if `err` is a terminal, and otherwise 0. It is called before
  // every line, because the user can resize the window.
  std::function<int()> err_columns;
};

// The standard output and error of this process.
Console process_console();

// Prints the error: a line "esctl: ..." to err, and with `json` an object {"error", "kind"} to out.
// Returns the exit code of its kind.
int report(const Error& error, bool json, Console& console);

// Returns the exit code for this result of a command, and prints the error if it is one. A Result
// contains the exit code of a command that has printed everything itself.
int finish(const Status& status, bool json, Console& console);
int finish(const Result<int>& result, bool json, Console& console);

}  // namespace es::actors::esctl
