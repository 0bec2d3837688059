#pragma once
// How a kernel of the CUDA device is written: once, as a struct whose members are its arguments.
// The CUDA compiler makes a GPU kernel of it. Any other compiler makes a function that runs its
// blocks on the host, so that the indexing and the order of operations can be tested without a GPU.
//
//   struct AddRow {
//     static constexpr unsigned kThreads = 256;  // of a block: a multiple of 32, at most 1,024
//     struct Shared { float part[256]; };        // of a block, at most 48 KiB. NoShared: none, and
//                                                // the kernel calls no sync(), down(), first()
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
// The host threads of tests stop the program if a thread does not arrive where the others wait.
//
// There are no atomics on floats: docs/reference/operators.md fixes every order of additions.
#include <cstdint>

#include "gpu/base/stream.h"
#include "gpu/canonical/on_device.h"

namespace es::gpu::cuda {

struct NoShared {};

struct Grid {
  std::int64_t x = 1, y = 1, z = 1;  // numbers of blocks; y and z at most 65,535
};

}  // namespace es::gpu::cuda
