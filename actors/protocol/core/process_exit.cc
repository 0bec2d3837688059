#include "actors/protocol/core/process_exit.h"

#include <cstring>

namespace es::actors {

std::string describe(const ProcessExit& exit) {
  std::string text = exit.signal != 0 ? "was ended by signal " + std::to_string(exit.signal) +
                                            " (" + ::strsignal(exit.signal) + ")"
                                      : "exited with status " + std::to_string(exit.exit_code);
  if (!exit.last_words.empty()) text += ": " + exit.last_words;
  return text;
}

}  // namespace es::actors
