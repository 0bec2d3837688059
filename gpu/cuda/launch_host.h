#pragma once
// The part of launch.h for other compilers. Blocks run one after the other on the calling thread;
// the threads of a block are coroutines that switch at sync() and down() (host_block.cc). The
// shared memory of a block is first filled with one bits (NaN as floats), so that tests notice a
// read of memory that was never written.
#include <cstddef>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

#include "gpu/cuda/host_tensor.h"
#include "gpu/cuda/launch_limits.h"

namespace es::gpu::cuda {

// The meaning of a stream's handle on the host: it receives the work. A stream without a handle
// executes work at once.
class HostQueue {
 public:
  virtual ~HostQueue() = default;
  virtual void add(std::function<void()> work) = 0;
};

}  // namespace es::gpu::cuda

namespace es::gpu::cuda::on_host {

class HostThreads;  // the coroutines of the current block

// The source line that a thread has reached.
using SourcePlace = std::source_location;

struct HostBlock {
  unsigned x() const { return at_x; }
  unsigned y() const { return at_y; }
  unsigned z() const { return at_z; }
  unsigned thread() const { return at_thread; }
  void sync(SourcePlace place = SourcePlace::current()) const;
  float down(float value, unsigned delta, SourcePlace place = SourcePlace::current()) const;
  float first(float value, SourcePlace place = SourcePlace::current()) const;
  void order() const {}  // a coroutine executes its code in order

  void copy_16(void* to, const void* from) const;
  void end_copies() const;
  template <int kNewest>
  void await_copies() const {
    await_copies(kNewest);
  }
  template <bool kSignedA, bool kSignedB>
  void add_product(std::int32_t (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                   SourcePlace place = SourcePlace::current()) const {
    add_product({c, a, b, {kSignedA, kSignedB}}, place);
  }

  void init(Barrier& barrier, std::uint32_t arrivals) const;
  void publish_barriers() const;
  void arrive(Barrier& barrier) const;
  void expect(Barrier& barrier, std::uint32_t bytes) const;
  void await(Barrier& barrier, std::uint32_t parity,
             SourcePlace place = SourcePlace::current()) const;
  void copy(void* to, const void* from, std::uint32_t bytes, Barrier& barrier) const;

  template <int kRegisters>
  void set_registers() const {}  // a coroutine has those of the processor
  std::uint32_t address(const void* in_shared) const;
  template <int kSets>
  void begin_products(std::int32_t (&)[kSets][32]) const {
    begin_products();
  }
  template <bool kSignedA, bool kSignedB>
  void add_products(std::int32_t (&c)[32], std::uint64_t a, std::uint64_t b) const {
    add_products(c, a, b, {kSignedA, kSignedB});
  }
  void end_products() const;
  template <int kNewest, int kSets>
  void await_products(std::int32_t (&)[kSets][32]) const {
    await_products(kNewest);
  }

  unsigned at_x, at_y, at_z, at_thread;
  HostThreads* threads;

 private:
  HostThreads& together() const;
  void await_copies(std::size_t newest) const;
  void add_product(const Fragments& mine, SourcePlace place) const;
  void begin_products() const;
  void add_products(std::int32_t* c, std::uint64_t a, std::uint64_t b, Signs signs) const;
  void await_products(std::size_t newest) const;
};

// A kernel and the shared memory of its block, without their types.
struct HostKernel {
  void (*run)(const HostBlock& block, const void* kernel, void* shared);
  const void* kernel;
  void* shared;
  std::size_t shared_bytes;
};

// Runs all threads of one block.
void run_block(unsigned threads, const HostBlock& block, const HostKernel& kernel);

template <class Kernel>
void run_grid(Grid grid, const Kernel& kernel) {
  using Shared = typename Kernel::Shared;
  Shared shared;
  const HostKernel erased{[](const HostBlock& block, const void* k, void* s) {
                            (*static_cast<const Kernel*>(k))(block, *static_cast<Shared*>(s));
                          },
                          &kernel, &shared, sizeof shared};
  HostBlock block{};
  for (block.at_z = 0; block.at_z < grid.z; ++block.at_z) {
    for (block.at_y = 0; block.at_y < grid.y; ++block.at_y) {
      for (block.at_x = 0; block.at_x < grid.x; ++block.at_x) {
        if constexpr (std::is_same_v<Shared, NoShared>) {
          HostBlock one = block;
          for (; one.at_thread < Kernel::kThreads; ++one.at_thread) kernel(one, shared);
        } else {
          std::memset(static_cast<void*>(&shared), 0xff, sizeof shared);
          run_block(Kernel::kThreads, block, erased);
        }
      }
    }
  }
}

template <class Kernel>
void launch(Stream stream, Grid grid, const Kernel& kernel) {
  check_kernel<Kernel>();
  check_grid(grid);
  if (stream.handle == nullptr) return run_grid(grid, kernel);
  static_cast<HostQueue*>(stream.handle)->add([grid, kernel] { run_grid(grid, kernel); });
}

// The capability of the GPU in whose place the host is: it runs the kernels of all.
inline int compute_capability() {
  return 90;
}

}  // namespace es::gpu::cuda::on_host
