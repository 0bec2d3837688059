#pragma once
// How a worker process ended. The node agent reports it, and the head shows it to users.
#include <cstddef>
#include <string>

namespace es::actors {

struct ProcessExit {
  int exit_code = -1;  // -1 if a signal ended it
  int signal = 0;
  std::string last_words;  // end of its errors and warnings, at most kLastWordsBytesMax
};

inline constexpr std::size_t kLastWordsBytesMax = 2048;

// Returns "exited with status 1" or "was ended by signal 9 (Killed)", with its last output.
std::string describe(const ProcessExit& exit);

}  // namespace es::actors
