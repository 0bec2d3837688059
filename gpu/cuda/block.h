#pragma once
// How a kernel of the CUDA device is written: once, as a struct whose members are its arguments.
// The CUDA compiler makes a GPU kernel of it. Any other compiler makes a function that runs its
// blocks on the host, so that the indexing and the order of operations can be tested without a GPU.
//
//   struct AddRow {
//     static constexpr unsigned kThreads = 256;  // of a block: a multiple of 32, at most 1,024
//     struct Shared { float part[256]; };        // of a block, at most 48 KiB, or 227 KiB if
//                                                // kOnlyHopper. NoShared: none, and the kernel
//                                                // calls only order() of what is below thread()
//     const float* x; float* y; std::int64_t n;  // pointers into device memory
//     template <class Block>
//     ES_HD void operator()(const Block& block, Shared& shared) const;
//   };
//   launch(stream, {.x = blocks}, AddRow{x, y, n});    // launch.h
//
// Block offers
//   x(), y(), z()       the position of the block in the grid
//   thread()            the number of the thread in the block, [0, kThreads)
//   sync()              a barrier for all threads of the block; REQUIRES: every thread calls it at
//                       the same place of the source
//   down(value, delta)  the value of thread + delta in the same run of 32 threads (the thread's own
//                       value if that is beyond the run); REQUIRES: every thread of the run calls
//                       it at the same place with the same delta
//   first(value)        the value of the first thread of the same run of 32; REQUIRES: as down()
//   order()             the reads and writes of memory before it are made before those after it:
//                       the compiler moves none across; REQUIRES: every thread of the run calls it
//
// For integer products on tensor cores, from sm_75 on:
//   copy_16(to, from)       begins a copy of 16 bytes from device memory to shared memory, both
//                           aligned to 16 bytes
//   end_copies()            ends a group of copies of the thread
//   await_copies<n>()       waits for all groups of the thread but the newest n; the other threads
//                           of the block see what was copied after the next sync()
//   add_product<sa, sb>(c, a, b)  c += a b for the 32 threads of a run: 16 x 32 bytes by 32 x 8,
//                           distributed over the threads as mma.m16n8k32 requires; sa, sb: whether
//                           the bytes of a and b have signs. REQUIRES: as down()
//
// For kernels with kOnlyHopper = true, which only GPUs of capability 9.0 run. A group is 128
// threads from a multiple of 128 on.
//   init(barrier, n)        before its first use, by one thread: a phase of the barrier ends when n
//                           threads have arrived and all expected bytes have been copied
//   publish_barriers()      after init(), by the same thread, before a sync()
//   arrive(barrier)         REQUIRES: fewer than n arrivals in this phase
//   expect(barrier, bytes)  arrives, and adds to the bytes that the phase waits for
//   await(barrier, parity)  waits until a phase with this parity has ended; the first phase has
//                           parity 0, and the phase before it counts as ended. REQUIRES: as down()
//   copy(to, from, bytes, barrier)  begins a copy from device memory to shared memory; pointers and
//                           bytes are multiples of 16. It is complete when its phase ends.
//   set_registers<n>()      gives registers of the threads of a group back, or takes some that
//                           others have given back; n is a multiple of 8. REQUIRES: as down(), and
//                           all runs of a group call it
//   begin_products(c), add_products<sa, sb>(c, a, b), end_products()
//                           a set of products of a group, c += a b: 64 x 32 bytes by 32 x 64 from
//                           shared memory that copy() has written, described by matrix_at().
//                           REQUIRES: as down(), and all runs of a group call the same
//   await_products<n>(c)    waits for all sets but the newest n; c and the shared memory of others
//                           may not be touched before
//   address(p)              the address in shared memory of p, for matrix_at()
//
// The host threads of tests stop the program if a thread does not arrive where the others wait.
// They do what may happen later at the latest moment in even blocks (copies when they are awaited,
// products too, which read shared memory only then), and at once in odd blocks. So a missing wait
// gives wrong results in one of them. Odd blocks compute add_product() as a GPU of sm_75 does.
//
// There are no atomics on floats: docs/reference/operators.md fixes every order of additions.
#include <cstdint>

#include "gpu/base/stream.h"
#include "gpu/canonical/on_device.h"

namespace es::gpu::cuda {

struct NoShared {};

// A barrier in shared memory, of which only the operations above know the contents.
struct Barrier {
  alignas(8) std::uint64_t state;
};

struct Grid {
  std::int64_t x = 1, y = 1, z = 1;  // numbers of blocks; y and z at most 65,535
};

// Describes a matrix in shared memory for add_products(): its bytes are [k / 16][row][k % 16], with
// `across` bytes from 16 k to the next 16. Without swizzle: 8 rows of 16 bytes are contiguous.
ES_HD inline std::uint64_t matrix_at(std::uint32_t address, std::uint32_t across) {
  constexpr std::uint64_t kDown = 8 * 16;  // bytes from 8 rows to the next 8
  return std::uint64_t{address >> 4 & 0x3fffu} | std::uint64_t{across >> 4} << 16 |
         kDown >> 4 << 32;
}

}  // namespace es::gpu::cuda
