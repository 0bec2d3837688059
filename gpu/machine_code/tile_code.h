#pragma once
// Machine code of element-wise programs, made while the program runs. A vector of elements passes
// through all instructions of a program in registers, where the kernels themselves
// (canonical/vec/program.h) write every intermediate result to memory. The bits are the same.
//
// Threads: any.
#include <cstdint>

#include "gpu/canonical/program.h"
#include "proto/base/device.h"

namespace es::gpu {

// Returns the machine code of a program with few registers (ElementCode) for a kernel class. It
// reads the constants when it is called, so programs that differ in constants only share it. It is
// made at the first call and kept until the process ends. Returns nullptr if the program has
// instructions that are not translated (xbyak_compiler.cc), `elements` are too few to be worth it,
// this build or kernel class has no compiler, or the system refuses executable memory. REQUIRES:
// the processor has the class.
TileCode tile_code(const ElementCode& code, CpuClass cpu_class, std::int64_t elements);

}  // namespace es::gpu
