#pragma once
// Parallel is a fixed set of threads that share the work of one operator. It is the only place in
// gpu/ that starts threads. No bit depends on it: callers divide work only where no sum is cut.
//
// Threads: run() may be called by one thread at a time (the engine's). The parts of a run may
// execute concurrently, on any of the threads and in any order. A part must not call run(). A
// thread prefers the same part in every run, because its caches then contain what it read or wrote
// in the run before. Memory: nothing is allocated after construction.
#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace es::gpu {

class Parallel {
 public:
  // `threads` is the total number of threads, the caller of run() included. 0 and 1 start no
  // helper.
  explicit Parallel(std::uint32_t threads);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  int threads() const { return static_cast<int>(helpers_.size()) + 1; }

  // Calls task(part) for every part in [0, parts) and returns when all calls have returned. What
  // the parts wrote is then visible to the caller. The floating-point flags (float_flags.h) that
  // the parts raised are then raised in the calling thread. REQUIRES: parts < 65536; `task` does
  // not throw.
  template <class Task>
  void run(int parts, Task&& task) {
    using Callable = std::remove_reference_t<Task>;
    run_parts(
        parts, [](void* context, int part) { (*static_cast<Callable*>(context))(part); },
        const_cast<std::remove_const_t<Callable>*>(&task));
  }

  // Divides [0, count) into at most threads() ranges whose inner bounds are multiples of `grain`,
  // and calls task(begin, end) for each range. Without helpers it makes one call. REQUIRES: grain >
  // 0.
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

  // The current run: (number of the run << 32) + (number of its parts << 16) + number of parts
  // taken. A thread takes a part with one compare-and-exchange, which fails if the run has changed.
  // So a late helper never mixes two runs. claim() decides which part it is.
  // It has a cache line of its own, because idle helpers read it all the time.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};
  alignas(64) std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<int> done_{0};        // parts of the current run that have returned
  std::atomic<unsigned> flags_{0};  // flags that the helpers raised in the current run
  std::vector<std::atomic<std::uint64_t>>
      claimed_;  // [part]: number of the last run in which a thread claimed it
  // Last member: the threads join before the other members are destroyed.
  std::vector<std::jthread> helpers_;
};

}  // namespace es::gpu
