#include "scheduler/plans/worker_memory.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <map>
#include <vector>

#include "proto/base/check.h"

namespace es::scheduler {
namespace {

bool is_gpu(const DeviceType& type) {
  return type.name.starts_with("cuda-sm");
}

std::uint64_t beyond(std::uint64_t needed, std::uint64_t room) {
  return room == 0 || needed <= room ? 0 : needed - room;
}

std::string mebibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / (1 << 20));
  return text;
}

// Of something that is divided in such a job two workers have each part.
std::uint64_t divided(std::uint64_t bytes, std::uint32_t workers) {
  return workers > 2 ? 2 * bytes / workers : bytes;
}

// The gradients of the ESTs of a worker on a CPU.
std::uint64_t own_gradients(const WorkerMemory& job, const DeviceType& type,
                            std::uint32_t workers) {
  if (gradients_leave(job, type, workers)) return job.on_cpu.gradient_leaving;
  const std::uint32_t ests = (job.max_p + workers - 1) / workers;
  return job.on_cpu.gradient *
         std::min(static_cast<std::uint32_t>(std::bit_width(ests)), job.most_gradients);
}

// A worker alone adds in the memory of its gradients. Of others each has the sums of its buckets.
std::uint64_t sums(const WorkerMemory& job, std::uint32_t workers) {
  if (workers == 1) return 0;
  return job.divided ? divided(job.on_cpu.gradient, workers) : job.on_cpu.gradient / workers;
}

}  // namespace

bool gradients_leave(const WorkerMemory& job, const DeviceType& type, std::uint32_t workers) {
  return job.divided && workers > 1 && workers >= job.max_p && !is_gpu(type);
}

MemoryRoom needed_bytes(const WorkerMemory& job, const DeviceType& type, std::uint32_t workers) {
  ES_CHECK(workers >= 1);
  // A GPU updates divided moments in host memory, and sums of gradients may wait there.
  if (is_gpu(type)) {
    const bool elsewhere = job.divided && workers > 2;
    return {.all = job.on_gpu.always + (elsewhere ? 0 : job.on_gpu.moments) + job.on_gpu.gradient,
            .unshared = 0};
  }
  const std::uint64_t moments =
      job.divided ? divided(job.on_cpu.moments, workers) : job.on_cpu.moments;
  const std::uint64_t own = job.on_cpu.always + moments;
  return {.all = own + own_gradients(job, type, workers) + sums(job, workers), .unshared = own};
}

std::uint64_t missing_bytes(const WorkerMemory& job, const DeviceType& type, const MemoryRoom& room,
                            std::uint32_t workers) {
  const MemoryRoom needed = needed_bytes(job, type, workers);
  return std::max(beyond(needed.all, room.all), beyond(needed.unshared, room.unshared));
}

std::optional<std::uint32_t> fewest_workers(const WorkerMemory& job,
                                            std::span<const RoomyDevices> devices, bool mixed,
                                            std::uint32_t most) {
  for (std::uint32_t workers = 1; workers <= most; ++workers) {
    std::map<DeviceType, std::uint64_t> fitting;
    std::uint64_t all = 0;
    for (const RoomyDevices& some : devices) {
      if (missing_bytes(job, some.type, some.room, workers) > 0) continue;
      all += some.count;
      const std::uint64_t of_type = fitting[some.type] += some.count;
      if ((mixed ? all : of_type) >= workers) return workers;
    }
  }
  return std::nullopt;
}

std::string missing_text(const WorkerMemory& job, const RoomyDevices& devices,
                         std::uint32_t workers) {
  const std::uint64_t bytes = missing_bytes(job, devices.type, devices.room, workers);
  ES_CHECK(bytes > 0);
  const MemoryRoom needed = needed_bytes(job, devices.type, workers);
  const bool unshared = bytes != beyond(needed.all, devices.room.all);
  return "a worker among " + std::to_string(workers) + " needs at least " +
         mebibytes(unshared ? needed.unshared : needed.all) + (unshared ? " of its own" : "") +
         " on " + devices.type.name + ", which has " +
         mebibytes(unshared ? devices.room.unshared : devices.room.all) + ": " +
         std::to_string(bytes) + " bytes are missing";
}

}  // namespace es::scheduler
