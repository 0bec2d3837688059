#pragma once
// Parallel: a fixed set of threads that share the work of one operator. The only place in gpu/ with
// threads. Bits never depend on it: callers cut work only where no sum is cut.
//
// Threads: run() belongs to one thread at a time (the engine's). Parts of a run may execute at the
// same time, on any of the threads, in any order; a part must not call run(). A thread prefers the
// same part in every run, so that it finds in its caches what it read or wrote in the run before.
// Memory: nothing is allocated after construction.
#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace es::gpu {

class Parallel {
 public:
  // `threads` in all, the caller of run() included: 0 and 1 start none.
  explicit Parallel(std::uint32_t threads);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls task(part) for every part in [0, parts), and returns when all have returned. What the
  // parts wrote is then visible to the caller. Floating-point flags (float_flags.h) that the parts
  // raised are then raised in the calling thread. REQUIRES: parts < 65536; `task` does not throw.
  template <class Task>
  void run(int parts, Task&& task) {
    using Callable = std::remove_reference_t<Task>;
    run_parts(
        parts, [](void* context, int part) { (*static_cast<Callable*>(context))(part); },
        const_cast<std::remove_const_t<Callable>*>(&task));
  }

  // Cuts [0, count) into at most threads() ranges whose inner bounds are multiples of `grain`, and
  // calls task(begin, end) for each. Without helpers that is one call. REQUIRES: grain > 0.
  template <class Task>
  void for_range(std::int64_t count, std::int64_t grain, Task&& task) {
    const std::int64_t grains = (count + grain - 1) / grain;
    const std::int64_t parts = grains < threads() ? grains : threads();
    if (parts <= 1) {
      if (count > 0) task(std::int64_t{0}, count);
      return;
    }
    run(static_cast<int>(parts), [&](int part) {
      const std::int64_t begin = grains * part / parts * grain;
      const std::int64_t end = grains * (part + 1) / parts * grain;
      task(begin, end < count ? end : count);
    });
  }

 private:
  using Call = void (*)(void* context, int part);
  void run_parts(int parts, Call call, void* context);
  bool take_part(std::uint64_t& ticket);
  int claim(std::uint64_t ticket, int thread);
  void help(std::stop_token stop, int thread);

  // The present run: (number of the run << 32) + (its parts << 16) + parts taken. A part is taken
  // by one compare-and-exchange, which fails when the run has changed, so a helper that comes late
  // never mixes two runs. Which part it is, claim() decides.
  std::atomic<std::uint64_t> ticket_{0};
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> done_{0};        // parts of the present run that have returned
  std::atomic<unsigned> flags_{0};  // that helpers raised in it
  std::vector<std::atomic<std::uint64_t>>
      claimed_;                        // by part: the last run that somebody did it in
  std::vector<std::jthread> helpers_;  // last: joins before the rest goes
};

}  // namespace es::gpu
