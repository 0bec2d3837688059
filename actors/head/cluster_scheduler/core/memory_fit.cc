#include "actors/head/cluster_scheduler/core/memory_fit.h"

#include <algorithm>
#include <string>
#include <vector>

namespace es::actors::cluster {
namespace {

using scheduler::RoomyDevices;
using scheduler::WorkerMemory;

std::vector<RoomyDevices> of_types(std::span<const RoomyDevices> devices,
                                   const std::vector<DeviceType>& types) {
  std::vector<RoomyDevices> some;
  for (const RoomyDevices& kind : devices)
    if (types.empty() || std::ranges::find(types, kind.type) != types.end()) some.push_back(kind);
  return some;
}

std::uint32_t most_workers(const JobSpec& spec) {
  const std::uint32_t named = spec.resources.max_devices;
  return named == 0 ? spec.max_p : std::min(named, spec.max_p);
}

// Names the devices on which least is missing for as many workers as there can be.
Error lacking(const WorkerMemory& memory, const std::vector<RoomyDevices>& devices,
              std::uint32_t most) {
  const auto workers = [&](const RoomyDevices& kind) { return std::min(most, kind.count); };
  const auto& best = *std::ranges::min_element(devices, {}, [&](const RoomyDevices& kind) {
    return missing_bytes(memory, kind.type, kind.room, workers(kind));
  });
  return refused("memory: " + missing_text(memory, best, workers(best)));
}

Status check_stages(const JobSpec& spec, const WorkerMemory& memory,
                    std::span<const RoomyDevices> devices) {
  for (const Stage& stage : spec.stages)
    ES_RETURN_IF_ERROR(check_room(memory, stage.devices, devices));
  return {};
}

// Error (refused): there is no room for the workers of the job. Raises resources.min_devices if the
// scheduler chooses its devices.
Status find_room(JobSpec& spec, const WorkerMemory& memory, std::span<const RoomyDevices> devices) {
  if (!spec.stages.empty()) return check_stages(spec, memory, devices);
  const std::vector<RoomyDevices> usable = of_types(devices, spec.resources.device_types);
  if (usable.empty()) return {};
  const bool mixed = spec.level == DeterminismLevel::kD2;
  const auto fewest = fewest_workers(memory, usable, mixed, most_workers(spec));
  if (!fewest) return lacking(memory, usable, most_workers(spec));
  spec.resources.min_devices = std::max(spec.resources.min_devices, *fewest);
  return {};
}

}  // namespace

Status check_room(const WorkerMemory& memory, const DeviceSet& exact,
                  std::span<const RoomyDevices> devices) {
  const std::uint32_t workers = exact.total();
  for (const DeviceCount& wanted : exact.counts) {
    std::vector<RoomyDevices> kinds = of_types(devices, {wanted.type});
    std::uint64_t roomy = 0;
    std::erase_if(kinds, [&](const RoomyDevices& kind) {
      const bool has_room = missing_bytes(memory, kind.type, kind.room, workers) == 0;
      roomy += has_room ? kind.count : 0;
      return has_room;
    });
    if (roomy < wanted.count && !kinds.empty())
      return refused("memory: " + missing_text(memory, kinds.front(), workers));
  }
  return {};
}

Result<JobSpec> fit_into_memory(JobSpec spec, WorkerMemory memory, bool may_divide,
                                std::span<const RoomyDevices> devices, bool may_grow) {
  const JobSpec asked = spec;
  memory.divided = spec.shard.state == "on";
  const Status whole = find_room(spec, memory, devices);
  if (whole.ok()) return spec;
  memory.divided = true;
  const bool fits_divided = may_divide && find_room(spec, memory, devices).ok();
  if (fits_divided && spec.shard.state == "auto") {
    spec.shard.state = "on";
    return spec;
  }
  if (may_grow) return asked;
  const bool is_chosen = fits_divided && spec.shard.state == "off";
  return refused(whole.error().message +
                 (is_chosen ? "; it fits with shard.state = \"auto\"" : ""));
}

}  // namespace es::actors::cluster
