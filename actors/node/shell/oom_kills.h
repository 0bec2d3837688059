#pragma once
// The number of processes that the kernel has ended because there was no memory for them, as far as
// this process can see it. It grows by the end of a worker process if that was the reason.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace es::actors {

// Of the control group of this process, which its workers share. Where that does not tell it, of
// the whole machine. nullopt: neither does.
std::optional<std::uint64_t> oom_kills();

// The value of a line "NAME VALUE" in a file such as memory.events; nullopt: there is none.
std::optional<std::uint64_t> counter_of(std::string_view text, std::string_view name);

// The files in which the kernel counts for the control groups of /proc/self/cgroup, of version 2
// and of version 1.
std::vector<std::string> counter_files(std::string_view cgroups);

}  // namespace es::actors
