#include "actors/base/protocol/core/process_exit.h"

#include <csignal>
#include <cstring>

namespace es::actors {
namespace {

// "11 (SIGSEGV, Segmentation fault)"
std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return std::to_string(signal) + " (" + (name == nullptr ? "" : "SIG" + std::string(name) + ", ") +
         ::strsignal(signal) + ")";
}

}  // namespace

EndCause cause_of(const ProcessExit& exit) {
  if (exit.exit_code == kNotStarted || exit.exit_code == kNodeUnusable) return EndCause::kNode;
  if (exit.out_of_memory) return EndCause::kItself;
  const bool was_released = exit.signal == 0 && exit.exit_code <= 0;
  return exit.signal == SIGKILL || was_released ? EndCause::kKilled : EndCause::kItself;
}

std::string way_of(const ProcessExit& exit) {
  if (exit.out_of_memory) return "out of memory";
  return exit.signal != 0 ? "signal " + std::to_string(exit.signal)
                          : "status " + std::to_string(exit.exit_code);
}

std::string describe(const ProcessExit& exit) {
  std::string text = exit.signal != 0 ? "was ended by signal " + signal_text(exit.signal)
                                      : "exited with status " + std::to_string(exit.exit_code);
  if (exit.out_of_memory)
    text +=
        ": out of memory: the kernel ended it, because its node or its memory limit has no more";
  if (!exit.last_words.empty()) text += ": " + exit.last_words;
  return text;
}

}  // namespace es::actors
