#include <sanitizer/asan_interface.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "gpu/cuda/launch_host.h"
#include "proto/base/check.h"

// es_cuda_change_stack(from, to) saves on the current stack what a function must preserve, stores
// the stack pointer in *from, and continues where `to` was stored. (The swapcontext of the C
// library makes a system call each time and clears the sticky floating-point flags.)
asm(R"(
.text
.p2align 4
.type es_cuda_change_stack, @function
es_cuda_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size es_cuda_change_stack, . - es_cuda_change_stack
)");
extern "C" void es_cuda_change_stack(void** from, void* to) asm("es_cuda_change_stack");

namespace es::gpu::cuda::on_host {
namespace {

constexpr std::size_t kRun = 32;  // number of threads that down() connects
// An odd number of cache lines, so that equal places of different stacks use different cache sets.
constexpr std::size_t kStackBytes = (64 << 10) + 16 * 67;

enum class At : std::uint8_t { kDown, kFirst, kSync, kEnd };

// The place at which a thread waits. A GPU treats threads that arrive from different places as
// threads that do not arrive, and so does this comparison.
struct Meeting {
  At at = At::kDown;
  unsigned delta = 0;
  const char* file = "";
  unsigned line = 0;

  // Compares the names of files as texts, because the name of a header exists once in memory for
  // each kernel file.
  bool operator==(const Meeting& other) const {
    return at == other.at && delta == other.delta && line == other.line &&
           std::string_view(file) == other.file;
  }
  bool of_run() const { return at == At::kDown || at == At::kFirst; }
};

Meeting meeting(At at, const SourcePlace& place, unsigned delta = 0) {
  return {at, delta, place.file_name(), place.line()};
}

std::byte* stacks(std::size_t threads) {
  static thread_local std::unique_ptr<std::byte[]> memory;
  static thread_local std::size_t size = 0;
  if (size < threads) {
    memory.reset(new std::byte[threads * kStackBytes]);
    size = threads;
  }
  return memory.get();
}

}  // namespace

// The threads of one block, as coroutines that switch where they meet. A run of 32 continues until
// all its threads are at sync() or at the end; then the next run continues. Every other block
// executes its threads from the last to the first. So a missing sync() shows in the results of one
// block or the other.
class HostThreads {
 public:
  HostThreads(unsigned threads, const HostBlock& block, const HostKernel& kernel)
      : block_(block), kernel_(kernel), threads_(threads) {
    block_.threads = this;
    auto top = reinterpret_cast<std::uintptr_t>(stacks(threads));
    // The threads of the previous block have not returned, so AddressSanitizer counts their frames
    // as in use.
    ASAN_UNPOISON_MEMORY_REGION(stacks(threads), threads * kStackBytes);
    for (Thread& thread : threads_) {
      top += kStackBytes;
      // The initial stack looks as if change_stack had been called: six registers, then the return
      // address. enter() finds the stack aligned as after a call.
      auto** frame = reinterpret_cast<void**>((top & ~std::uintptr_t{15}) - 16) - 6;
      std::memset(frame, 0, 8 * sizeof(void*));
      frame[6] = reinterpret_cast<void*>(&HostThreads::enter);
      thread.stack = frame;
    }
  }

  void run() {
    HostThreads* const outer = running;
    running = this;
    for (Meeting all{.at = At::kSync}; all.at == At::kSync;) {
      all = advance_run(in_turn(0, threads_.size()) / kRun * kRun);
      for (std::size_t i = kRun; i < threads_.size(); i += kRun) {
        const std::size_t first = in_turn(i, threads_.size()) / kRun * kRun;
        ES_CHECK_MSG(advance_run(first) == all, "a thread of a block does not come to sync()");
      }
    }
    running = outer;
  }

  void meet(unsigned thread, const Meeting& at) {
    threads_[thread].at = at;
    es_cuda_change_stack(&threads_[thread].stack, caller_);
  }

  float down(unsigned thread, float value, const Meeting& at) {
    return exchange(thread, value, thread % kRun + at.delta < kRun ? thread + at.delta : thread,
                    at);
  }
  float first(unsigned thread, float value, const Meeting& at) {
    return exchange(thread, value, thread - thread % kRun, at);
  }

 private:
  struct Thread {
    void* stack = nullptr;
    float values[2] = {};
    bool turn = false;
    Meeting at;
  };

  // Each thread has two places for its value and uses them in turn, so a thread that is one round
  // ahead overwrites nothing that another thread still reads.
  float exchange(unsigned thread, float value, std::size_t source, const Meeting& at) {
    Thread& self = threads_[thread];
    const bool turn = self.turn = !self.turn;
    self.values[turn] = value;
    meet(thread, at);
    return threads_[source].values[turn];
  }

  // Returns the i-th of `count` in the direction of this block.
  std::size_t in_turn(std::size_t i, std::size_t count) const {
    const bool backwards = (block_.at_x + block_.at_y + block_.at_z) % 2 != 0;
    return backwards ? count - 1 - i : i;
  }

  // Runs the 32 threads that begin with thread `first` until they are at sync() or at the end.
  // Returns where they are.
  Meeting advance_run(std::size_t first) {
    Meeting at;
    while (at.of_run()) {
      for (std::size_t i = 0; i < kRun; ++i) {
        at_ = first + in_turn(i, kRun);
        es_cuda_change_stack(&caller_, threads_[at_].stack);
        if (i == 0) at = threads_[at_].at;
        ES_CHECK_MSG(threads_[at_].at == at, "threads of a run come to different places");
      }
    }
    return at;
  }

  static void enter() {
    HostThreads& all = *running;
    HostBlock block = all.block_;
    block.at_thread = static_cast<unsigned>(all.at_);
    all.kernel_.run(block, all.kernel_.kernel, all.kernel_.shared);
    all.meet(block.at_thread, {.at = At::kEnd});
  }

  static thread_local HostThreads* running;

  HostBlock block_;
  const HostKernel kernel_;
  std::vector<Thread> threads_;
  void* caller_ = nullptr;
  std::size_t at_ = 0;
};

thread_local HostThreads* HostThreads::running = nullptr;

void HostBlock::sync(SourcePlace place) const {
  ES_CHECK_MSG(threads != nullptr, "sync() in a kernel without shared memory (NoShared)");
  threads->meet(at_thread, meeting(At::kSync, place));
}

float HostBlock::down(float value, unsigned delta, SourcePlace place) const {
  ES_CHECK_MSG(threads != nullptr, "down() in a kernel without shared memory (NoShared)");
  return threads->down(at_thread, value, meeting(At::kDown, place, delta));
}

float HostBlock::first(float value, SourcePlace place) const {
  ES_CHECK_MSG(threads != nullptr, "first() in a kernel without shared memory (NoShared)");
  return threads->first(at_thread, value, meeting(At::kFirst, place));
}

void run_block(unsigned threads, const HostBlock& block, const HostKernel& kernel) {
  HostThreads(threads, block, kernel).run();
}

}  // namespace es::gpu::cuda::on_host
