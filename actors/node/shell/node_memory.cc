#include "actors/node/shell/node_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "gpu/cuda/cuda_inventory.h"

namespace es::actors {
namespace {

std::uint64_t smaller(std::uint64_t a, std::uint64_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

std::uint64_t of_gpus(const DeviceType& type) {
  std::uint64_t least = 0;
  for (const gpu::CudaDevice& device : gpu::cuda_inventory().devices)
    if (device.type() == type) least = smaller(least, device.memory_bytes);
  return least;
}

std::uint64_t of_machine() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t data_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_DATA, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return limit.rlim_cur;
}

}  // namespace

std::uint64_t control_group_memory() {
  std::ifstream own("/proc/self/cgroup");
  std::string line;
  std::getline(own, line);
  const std::string group = line.starts_with("0::") ? line.substr(3) : "/";
  std::ifstream file("/sys/fs/cgroup" + group + "/memory.max");
  std::uint64_t bytes = 0;
  return file >> bytes ? bytes : 0;  // "max" is no number
}

scheduler::MemoryRoom memory_of_device(const DeviceType& type) {
  if (type.name.starts_with("cuda-sm")) return {.all = of_gpus(type), .unshared = 0};
  return {.all = smaller(of_machine(), control_group_memory()), .unshared = data_limit()};
}

}  // namespace es::actors
