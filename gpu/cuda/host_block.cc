#include <sanitizer/asan_interface.h>

#include <algorithm>
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

enum class At : std::uint8_t { kStart, kDown, kFirst, kTogether, kAwait, kSync, kEnd };

// The place at which a thread waits. A GPU treats threads that arrive from different places as
// threads that do not arrive, and so does this comparison.
struct Meeting {
  At at = At::kStart;
  unsigned delta = 0;  // of down(), or the parity that await() is called with
  const char* file = "";
  unsigned line = 0;
  const Barrier* barrier = nullptr;             // kAwait
  void (*work)(const RunFragments&) = nullptr;  // kTogether: what the run does when it has met

  // Compares the names of files as texts, because the name of a header exists once in memory for
  // each kernel file.
  bool operator==(const Meeting& other) const {
    return at == other.at && delta == other.delta && line == other.line &&
           barrier == other.barrier && work == other.work && std::string_view(file) == other.file;
  }
  // Whether a thread waits only for the others of its run.
  bool of_run() const { return at == At::kDown || at == At::kFirst || at == At::kTogether; }
};

Meeting meeting(At at, const SourcePlace& place, unsigned delta = 0) {
  return {.at = at, .delta = delta, .file = place.file_name(), .line = place.line()};
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
// all its threads are at sync(), at await() or at the end; then the next run continues. Every other
// block executes its threads from the last to the first, and what may happen later at once. So a
// missing sync() or wait shows in the results of one block or the other.
class HostThreads {
 public:
  HostThreads(unsigned threads, const HostBlock& block, const HostKernel& kernel)
      : shared(kernel.shared, kernel.shared_bytes, threads, is_odd(block)),
        products(shared, threads, is_odd(block)),
        block_(block),
        kernel_(kernel),
        threads_(threads),
        runs_(threads / kRun) {
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
    while (!all_at(At::kEnd)) {
      bool moved = false;
      for (std::size_t i = 0; i < runs_.size(); ++i) {
        const std::size_t run = in_turn(i, runs_.size());
        if (!may_continue(runs_[run])) continue;
        runs_[run] = advance_run(run * kRun);
        moved = true;
      }
      if (all_at(At::kSync)) {
        for (Meeting& run : runs_) run = {};
        moved = true;
      }
      ES_CHECK_MSG(moved, "a thread of a block does not come to where the others wait");
    }
    shared.check_end();
    products.check_end();
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

  // Multiplies when the run has met.
  void multiply(unsigned thread, const Fragments& mine, const SourcePlace& place) {
    threads_[thread].fragments = &mine;
    Meeting at = meeting(At::kTogether, place);
    at.work = is_odd(block_) ? multiply_m8n8k16 : multiply_m16n8k32;
    meet(thread, at);
  }

  HostShared shared;
  HostProducts products;

 private:
  struct Thread {
    void* stack = nullptr;
    float values[2] = {};
    bool turn = false;
    const Fragments* fragments = nullptr;
    Meeting at;
  };

  static bool is_odd(const HostBlock& block) {
    return (block.at_x + block.at_y + block.at_z) % 2 != 0;
  }

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
    return is_odd(block_) ? count - 1 - i : i;
  }

  bool all_at(At place) const {
    return std::all_of(runs_.begin(), runs_.end(),
                       [&](const Meeting& run) { return run.at == place && run == runs_.front(); });
  }
  // `run`: where the threads of a run wait.
  bool may_continue(const Meeting& run) {
    return run.at == At::kStart || (run.at == At::kAwait && shared.ended(*run.barrier, run.delta));
  }

  // Runs the 32 threads that begin with thread `first` until they wait for another run, or are at
  // the end. Returns where they are.
  Meeting advance_run(std::size_t first) {
    Meeting at;
    do {
      for (std::size_t i = 0; i < kRun; ++i) {
        at_ = first + in_turn(i, kRun);
        es_cuda_change_stack(&caller_, threads_[at_].stack);
        if (i == 0) at = threads_[at_].at;
        ES_CHECK_MSG(threads_[at_].at == at, "threads of a run come to different places");
      }
      if (at.work != nullptr) at.work(fragments(first));
    } while (at.of_run());
    return at;
  }

  RunFragments fragments(std::size_t first) const {
    RunFragments run;
    for (std::size_t i = 0; i < kRun; ++i) run[i] = threads_[first + i].fragments;
    ES_CHECK_MSG(std::all_of(run.begin(), run.end(),
                             [&](const Fragments* f) { return f->signs == run[0]->signs; }),
                 "threads of a run multiply with different signs");
    return run;
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
  std::vector<Meeting> runs_;  // where the threads of each run wait
  void* caller_ = nullptr;
  std::size_t at_ = 0;
};

thread_local HostThreads* HostThreads::running = nullptr;

HostThreads& HostBlock::together() const {
  ES_CHECK_MSG(threads != nullptr, "threads of a kernel without shared memory (NoShared) meet");
  return *threads;
}

void HostBlock::sync(SourcePlace place) const {
  together().meet(at_thread, meeting(At::kSync, place));
}
float HostBlock::down(float value, unsigned delta, SourcePlace place) const {
  return together().down(at_thread, value, meeting(At::kDown, place, delta));
}
float HostBlock::first(float value, SourcePlace place) const {
  return together().first(at_thread, value, meeting(At::kFirst, place));
}

void HostBlock::copy_16(void* to, const void* from) const {
  together().shared.copy(at_thread, to, from, 16);
}
void HostBlock::end_copies() const {
  together().shared.end_copies(at_thread);
}
void HostBlock::await_copies(std::size_t newest) const {
  together().shared.await_copies(at_thread, newest);
}
void HostBlock::add_product(const Fragments& mine, SourcePlace place) const {
  together().multiply(at_thread, mine, place);
}

void HostBlock::init(Barrier& barrier, std::uint32_t arrivals) const {
  together().shared.init(barrier, arrivals);
}
void HostBlock::publish_barriers() const {
  together().shared.publish_barriers();
}
void HostBlock::arrive(Barrier& barrier) const {
  together().shared.arrive(barrier);
}
void HostBlock::expect(Barrier& barrier, std::uint32_t bytes) const {
  together().shared.expect(barrier, bytes);
}
void HostBlock::copy(void* to, const void* from, std::uint32_t bytes, Barrier& barrier) const {
  together().shared.copy(to, from, bytes, barrier);
}
void HostBlock::await(Barrier& barrier, std::uint32_t parity, SourcePlace place) const {
  Meeting at = meeting(At::kAwait, place, parity);
  at.barrier = &barrier;
  together().meet(at_thread, at);
}

std::uint32_t HostBlock::address(const void* in_shared) const {
  return together().shared.address(in_shared);
}
void HostBlock::begin_products() const {
  together().products.begin(at_thread);
}
void HostBlock::add_products(std::int32_t* c, std::uint64_t a, std::uint64_t b, Signs signs) const {
  together().products.add(at_thread, c, a, b, signs);
}
void HostBlock::end_products() const {
  together().products.end(at_thread);
}
void HostBlock::await_products(std::size_t newest) const {
  together().products.await(at_thread, newest);
}

void run_block(unsigned threads, const HostBlock& block, const HostKernel& kernel) {
  HostThreads(threads, block, kernel).run();
}

}  // namespace es::gpu::cuda::on_host
