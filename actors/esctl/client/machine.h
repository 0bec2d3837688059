#pragma once
// What `esctl doctor` knows of this machine, and what follows from it.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/views/doctor_view.h"

namespace es::actors::esctl {

// Sizes are in bytes.
struct MachineFacts {
  unsigned cores = 1;  // that this process may use
  bool has_fma = true;
  std::vector<std::string> cpu_classes{};
  std::uint64_t memory_available = 0;
  std::uint64_t memory_limit = 0;  // of the control group of this process; 0: none
  std::uint64_t open_files = 0;    // the soft limit of this process; UINT64_MAX: none
  std::uint64_t processes = 0;     // likewise, of processes and threads of the user
  std::optional<std::uint64_t> shared_memory_free{};  // none: /dev/shm cannot be used
  std::optional<bool> clock_synchronised{};           // none: the kernel does not say
  std::vector<std::string> gpus{};                    // names
  std::string why_no_gpu{};
  bool has_gpu_driver = false;  // the kernel module is loaded
  std::vector<std::string> missing_gpu_libraries{};
};

// Reads them from the kernel.
MachineFacts machine_facts();

// A pure function.
Findings check_machine(const MachineFacts& facts);

}  // namespace es::actors::esctl
