#pragma once
// Recorder collects the spans of one process while it is traced. It has no clock: the caller that
// adds a span has measured it.
//
// Cost: while no trace runs, a thread pays for one load of an atomic number and one branch. Memory:
// at most `limit` spans in one trace, and those that were taken last; further ones are counted and
// dropped. Thread-safe.
#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "actors/base/tracing/core/span.h"

namespace es::actors::tracing {

// About 10 MB in each process.
inline constexpr std::size_t kSpansMax = 200'000;

class Recorder {
 public:
  bool on() const { return on_.load(std::memory_order_relaxed); }
  // Begins anew: what an earlier trace has left is dropped.
  void start(std::size_t limit = kSpansMax);
  // From now on, add() does nothing.
  void stop();
  void add(const Span& span) { add(std::span(&span, 1)); }
  // The same for many spans, with the cost of one.
  void add(std::span<const Span> spans);

  struct Taken {
    std::vector<Span> spans;    // since the last take(), in the order in which they were added
    std::uint64_t dropped = 0;  // since start()
  };
  // Replaces `taken`, and keeps its memory for the spans that follow, so that recording allocates
  // little. After stop(), nothing is kept.
  void take(Taken& taken);
  Taken take();
  // Number of spans that take() would return.
  std::size_t waiting() const;

 private:
  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;  // guards the rest
  std::vector<Span> spans_;
  std::size_t room_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace es::actors::tracing
