#pragma once
// Device types, placements and stages: their values and their text form.
//
//   device type   cpu-scalar | cpu-avx2 | cpu-avx512        (later: cuda-sm90-h200 ...)
//   placement     TYPE:COUNT[+TYPE:COUNT...]                 cpu-scalar:1+cpu-avx2:1
//   stages        PLACEMENT@STEPS[,PLACEMENT@STEPS...]       cpu-avx512:4@20,cpu-avx2:2@20
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es {

// The type of a device: devices of one type give the same bits at level D1, devices of different
// types only at D2. A name, not an enum: GPU types come from the hardware.
struct DeviceType {
  std::string name;
  auto operator<=>(const DeviceType&) const = default;
};

// The kernel classes of a CPU device, slowest first.
enum class CpuClass { kScalar, kAvx2, kAvx512 };

DeviceType device_type(CpuClass cpu_class);
// Error (usage): not one of the CPU classes; the message lists them.
Result<CpuClass> parse_cpu_class(std::string_view name);
// Whether this machine's processor can execute the class.
bool cpu_supports(CpuClass cpu_class);
// All classes that this machine can execute, slowest first. Never empty: scalar always works.
std::vector<CpuClass> supported_cpu_classes();

struct DeviceCount {
  DeviceType type;
  std::uint32_t count = 0;
  bool operator==(const DeviceCount&) const = default;
};

// How many devices of each type: sorted by type name, counts > 0, each type once.
struct DeviceSet {
  std::vector<DeviceCount> counts;

  std::uint32_t total() const;
  std::uint32_t count_of(const DeviceType& type) const;
  void add(const DeviceType& type, std::uint32_t count);
  // REQUIRES: count_of(type) >= count.
  void remove(const DeviceType& type, std::uint32_t count);
  bool contains(const DeviceSet& other) const;
  bool empty() const { return counts.empty(); }
  std::string text() const;
  bool operator==(const DeviceSet&) const = default;
};

// Error (usage): what is malformed, and the form that is allowed. At least one device.
Result<DeviceSet> parse_device_set(std::string_view text);

struct Stage {
  DeviceSet devices;
  std::uint64_t steps = 0;  // global steps, > 0
  bool operator==(const Stage&) const = default;
};

Result<std::vector<Stage>> parse_stages(std::string_view text);
std::string stages_text(const std::vector<Stage>& stages);

}  // namespace es
