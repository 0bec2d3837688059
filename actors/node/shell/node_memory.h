#pragma once
// The memory that a worker on a device of this node may use.
#include <cstdint>

#include "proto/base/device.h"
#include "scheduler/plans/worker_memory.h"

namespace es::actors {

// The memory of a GPU of this type, of the smallest if there are several; for other types that of
// the machine, which all devices share, within the limits that this process passes on to workers
// (RLIMIT_DATA limits what is not shared).
scheduler::MemoryRoom memory_of_device(const DeviceType& type);

// The limit of the control group (version 2) in which this process is; 0: none is readable.
std::uint64_t control_group_memory();

}  // namespace es::actors
