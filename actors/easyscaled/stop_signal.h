#pragma once
// StopSignal waits for the end of a daemon, for any cause.
#include <sys/types.h>

#include <chrono>
#include <optional>

#include "proto/base/result.h"

namespace es::actors {

// Construct it before any thread is started: it blocks SIGTERM and SIGINT in this and all later
// threads.
class StopSignal {
 public:
  // `parent`: also stop when this process ends; 0: none.
  static Result<StopSignal> create(pid_t parent);
  ~StopSignal();
  StopSignal(StopSignal&& other) noexcept;
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  enum class Cause { kSignal, kParentEnded, kFinished, kTimeout };
  // Blocks until there is a cause to stop, or until `deadline`.
  Cause wait(std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt);
  // Reports that the work is over (kFinished). May be called from any thread.
  void finish();

 private:
  StopSignal(int signals, int parent, int finished)
      : signals_(signals), parent_(parent), finished_(finished) {}
  int signals_, parent_, finished_;
};

}  // namespace es::actors
