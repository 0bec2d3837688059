#pragma once
// The least memory that a worker of a job needs, and whether a device has it. Bytes. Pure functions
// of values; thread-safe.
//
// What a worker needs depends on the number n of workers: a worker with fewer ESTs has fewer sums
// of gradients that wait, and a job may divide the moments of its optimizer, so that a worker has
// 2/n of them, and of the sums (docs/PROTOCOL.md). Then gradients of a worker with one EST leave
// early. All of this only becomes less with more workers.
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "proto/base/device.h"

namespace es::scheduler {

// What the workers of a job have, as the plan of the engine says (gpu/engine/engine.h).
struct WorkerArrays {
  // Parameters, constants, the statistics of all ESTs, activations and scratch memory.
  std::uint64_t always = 0;
  std::uint64_t moments = 0;   // of all parameters
  std::uint64_t gradient = 0;  // of all parameters
  // What a CPU has of it at one time, if its buckets leave as soon as others have read them.
  std::uint64_t gradient_leaving = 0;
};

struct WorkerMemory {
  WorkerArrays on_cpu, on_gpu;
  std::uint32_t max_p = 1;
  std::uint32_t most_gradients = 32;  // that a worker on a CPU has at once, with many ESTs
  bool divided = false;               // moments are divided among the workers
};

// The memory of a device that a worker may use; 0: not known, or no limit.
struct MemoryRoom {
  std::uint64_t all = 0;
  // Of the memory of a process that no other process shares. A worker on a CPU shares gradients.
  std::uint64_t unshared = 0;
  bool operator==(const MemoryRoom&) const = default;
};

// The bytes that a worker among `workers` lacks on such a device; 0: it fits.
std::uint64_t missing_bytes(const WorkerMemory& job, const DeviceType& type, const MemoryRoom& room,
                            std::uint32_t workers);

// Whether the gradients of a worker among `workers` leave early on a device of this type.
bool gradients_leave(const WorkerMemory& job, const DeviceType& type, std::uint32_t workers);

// The bytes that a worker among `workers` needs on a device of this type.
MemoryRoom needed_bytes(const WorkerMemory& job, const DeviceType& type, std::uint32_t workers);

// Some devices of one type with the same room.
struct RoomyDevices {
  DeviceType type;
  MemoryRoom room;
  std::uint32_t count = 0;
};

// The fewest workers, at most `most`, for which these devices have room; nullopt: there are none.
// Without `mixed` all devices are of one type.
std::optional<std::uint32_t> fewest_workers(const WorkerMemory& job,
                                            std::span<const RoomyDevices> devices, bool mixed,
                                            std::uint32_t most);

// Why a worker among `workers` does not fit on such a device: "a worker among 8 needs at least
// 5324.8 MiB on cpu-avx2, which has 4096.0 MiB: 1288490189 bytes are missing". REQUIRES: it does
// not.
std::string missing_text(const WorkerMemory& job, const RoomyDevices& devices,
                         std::uint32_t workers);

}  // namespace es::scheduler
