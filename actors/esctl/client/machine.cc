#include "actors/esctl/client/machine.h"

#include <dlfcn.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "actors/node/shell/node_memory.h"
#include "actors/views/render_text.h"
#include "gpu/cuda/cuda_inventory.h"
#include "proto/base/device.h"

namespace es::actors::esctl {
namespace {

using Verdict = Finding::Verdict;

constexpr std::uint64_t kMebi = 1 << 20;
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// --- what the kernel says

unsigned usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
}

// Returns the value in bytes of a line "KEY:   123 kB" of /proc/meminfo; 0 if there is none.
std::uint64_t memory_of(const std::string& key) {
  std::ifstream file("/proc/meminfo");
  for (std::string word; file >> word;)
    if (std::uint64_t kibibytes = 0; word == key + ":" && file >> kibibytes)
      return kibibytes * 1024;
  return 0;
}

std::uint64_t soft_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return 0;
  return limit.rlim_cur == RLIM_INFINITY ? kNoLimit : limit.rlim_cur;
}

std::optional<std::uint64_t> shared_memory_free() {
  struct statvfs there {};
  if (::access("/dev/shm", W_OK | X_OK) != 0 || ::statvfs("/dev/shm", &there) != 0) return {};
  return std::uint64_t(there.f_bavail) * there.f_frsize;
}

std::optional<bool> clock_synchronised() {
  timex clock{};
  if (::adjtimex(&clock) < 0) return {};
  return (clock.status & STA_UNSYNC) == 0;
}

bool has_library(const char* name) {
  void* const library = ::dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

bool has_any(const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [](const std::string& n) { return has_library(n.c_str()); });
}

// --- what follows

std::string mebibytes(std::uint64_t bytes) {
  return std::to_string(bytes / kMebi) + " MiB";
}

void check_processor(const MachineFacts& facts, Findings& found) {
  if (!facts.has_fma) {
    found.push_back({Verdict::kWrong, "cpu", "The processor has no FMA instructions.",
                     "Use an x86-64 processor with FMA (Intel from 2013, AMD from 2012 on), and "
                     "let the virtual machine pass it on."});
    return;
  }
  std::string classes;
  for (const std::string& name : facts.cpu_classes) classes += (classes.empty() ? "" : ", ") + name;
  found.push_back({Verdict::kFine, "cpu",
                   "It executes " + classes + " on " + counted(facts.cores, "core") + "."});
}

void check_memory(const MachineFacts& facts, Findings& found) {
  // A worker of a small model with its libraries takes about this.
  constexpr std::uint64_t kLittle = 512 * kMebi;
  const std::string text =
      mebibytes(facts.memory_available) + " of memory are available" +
      (facts.memory_limit == 0
           ? std::string()
           : "; the control group of this process may use " + mebibytes(facts.memory_limit)) +
      ".";
  const bool little =
      facts.memory_available < kLittle || (facts.memory_limit != 0 && facts.memory_limit < kLittle);
  found.push_back({little ? Verdict::kWarning : Verdict::kFine, "memory", text,
                   little ? "End other programs, or raise MemoryMax of the service; `esctl inspect "
                            "JOB.toml` says what a worker needs."
                          : ""});
}

void check_limits(const MachineFacts& facts, Findings& found) {
  // A head has some descriptors for each worker, client and file of its journal.
  constexpr std::uint64_t kFilesMin = 1024, kFilesGood = 4096, kProcessesGood = 1024;
  const std::string files =
      facts.open_files == kNoLimit ? "any number of files" : counted(facts.open_files, "file");
  const Verdict verdict = facts.open_files < kFilesMin    ? Verdict::kWrong
                          : facts.open_files < kFilesGood ? Verdict::kWarning
                                                          : Verdict::kFine;
  found.push_back({verdict, "limits", "A process may open " + files + ".",
                   verdict == Verdict::kFine
                       ? ""
                       : "ulimit -n 65536, or LimitNOFILE=65536 in the systemd unit; a head of a "
                         "large cluster needs thousands."});
  if (facts.processes < kProcessesGood)
    found.push_back(
        {Verdict::kWarning, "limits",
         "The user may have " + counted(facts.processes, "process", "processes") + " and threads.",
         "ulimit -u 65536, or TasksMax of the systemd unit; every worker has about a "
         "dozen threads."});
}

void check_shared_memory(const MachineFacts& facts, Findings& found) {
  constexpr std::uint64_t kLittle = 256 * kMebi;
  if (!facts.shared_memory_free) {
    found.push_back({Verdict::kWrong, "shared-memory",
                     "/dev/shm is not there or cannot be written; workers of one machine exchange "
                     "gradients there.",
                     "Mount a tmpfs there; for a container: --ipc=host or --shm-size."});
    return;
  }
  const bool little = *facts.shared_memory_free < kLittle;
  found.push_back({little ? Verdict::kWarning : Verdict::kFine, "shared-memory",
                   "/dev/shm has " + mebibytes(*facts.shared_memory_free) + " free.",
                   little ? "It needs the gradients of every worker of this machine (4 bytes for "
                            "each parameter); for a container: --shm-size."
                          : ""});
}

void check_clock(const MachineFacts& facts, Findings& found) {
  if (!facts.clock_synchronised) return;
  const bool is = *facts.clock_synchronised;
  found.push_back({is ? Verdict::kFine : Verdict::kWarning, "clock",
                   is ? "The clock of this machine is synchronised."
                      : "The kernel does not know the clock of this machine as synchronised.",
                   is ? ""
                      : "Install chrony or systemd-timesyncd, so that the times in logs of several "
                        "machines can be compared; training does not depend on clocks."});
}

void check_gpus(const MachineFacts& facts, Findings& found) {
  if (facts.gpus.empty()) {
    // Without a driver no GPU is expected here.
    const bool expected = facts.has_gpu_driver;
    found.push_back({expected ? Verdict::kWrong : Verdict::kFine, "gpu",
                     "No GPU can be used: " + facts.why_no_gpu + ".",
                     expected ? "Compare `nvidia-smi` with the build (docs: README, GPUs); check "
                                "the permissions of /dev/nvidia*."
                              : ""});
    return;
  }
  std::string names;
  for (const std::string& name : facts.gpus) names += (names.empty() ? "" : ", ") + name;
  found.push_back({Verdict::kFine, "gpu", counted(facts.gpus.size(), "GPU") + ": " + names + "."});
  for (const std::string& library : facts.missing_gpu_libraries)
    found.push_back({Verdict::kWarning, "gpu", library + " is not installed.",
                     "Levels D0 and D1 are slower without cuBLAS and cuDNN, and workers on several "
                     "GPUs without NCCL; D2 does not use the first two."});
}

}  // namespace

MachineFacts machine_facts() {
  MachineFacts facts;
  facts.cores = usable_cores();
  facts.has_fma = cpu_supports(CpuClass::kScalar);
  for (const CpuClass c : supported_cpu_classes()) facts.cpu_classes.push_back(device_type(c).name);
  facts.memory_available = memory_of("MemAvailable");
  facts.memory_limit = control_group_memory();
  facts.open_files = soft_limit(RLIMIT_NOFILE);
  facts.processes = soft_limit(RLIMIT_NPROC);
  facts.shared_memory_free = shared_memory_free();
  facts.clock_synchronised = clock_synchronised();
  const gpu::CudaInventory inventory = gpu::cuda_inventory();
  for (const gpu::CudaDevice& device : inventory.devices) facts.gpus.push_back(device.type().name);
  facts.why_no_gpu = inventory.why_none;
  std::error_code ignored;
  facts.has_gpu_driver = std::filesystem::exists("/proc/driver/nvidia/version", ignored);
  if (facts.gpus.empty()) return facts;
  if (!has_any({"libcublas.so.13", "libcublas.so.12"}))
    facts.missing_gpu_libraries.push_back("cuBLAS");
  if (!has_any({"libcudnn.so.9"})) facts.missing_gpu_libraries.push_back("cuDNN");
  if (!has_any({"libnccl.so.2"})) facts.missing_gpu_libraries.push_back("NCCL");
  return facts;
}

Findings check_machine(const MachineFacts& facts) {
  Findings found;
  check_processor(facts, found);
  check_memory(facts, found);
  check_limits(facts, found);
  check_shared_memory(facts, found);
  check_clock(facts, found);
  check_gpus(facts, found);
  return found;
}

}  // namespace es::actors::esctl
