#pragma once
// Device types, placements and stages: their values and their text form.
//
//   device type   cpu-scalar | cpu-avx2 | cpu-avx512 | the name of a GPU type, e.g. cuda-sm90-h200
//   placement     TYPE:COUNT[+TYPE:COUNT...]                 cpu-scalar:1+cpu-avx2:1
//   stages        PLACEMENT@STEPS[,PLACEMENT@STEPS...]       cpu-avx512:4@20,cpu-avx2:2@20
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es {

// The type of a device. Devices of one type give the same bits at level D1, devices of different
// types only at D2. The type is a name and not an enum, because the names of GPU types come from
// the hardware.
struct DeviceType {
  std::string name;
  auto operator<=>(const DeviceType&) const = default;
};

// The kernel classes of a CPU device, the slowest first.
enum class CpuClass { kScalar, kAvx2, kAvx512 };

DeviceType device_type(CpuClass cpu_class);
// Error (usage): the name is not one of the CPU classes; the message lists them.
Result<CpuClass> parse_cpu_class(std::string_view name);
// Whether the processor of this machine can execute the class. Every class needs the FMA
// instructions on x86-64, including kScalar.
bool cpu_supports(CpuClass cpu_class);
// All classes that this machine can execute, the slowest first. The list always contains kScalar,
// even on a processor without FMA, so it is never empty.
std::vector<CpuClass> supported_cpu_classes();

struct DeviceCount {
  DeviceType type;
  std::uint32_t count = 0;
  bool operator==(const DeviceCount&) const = default;
};

// A number of devices for each type. The entries are sorted by type name, each type occurs once,
// and all counts are > 0.
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

// Parses a placement of at least one device. Error (usage): the message names the malformed part
// and the allowed form.
Result<DeviceSet> parse_device_set(std::string_view text);

struct Stage {
  DeviceSet devices;
  std::uint64_t steps = 0;  // number of global steps, > 0
  bool operator==(const Stage&) const = default;
};

// Parses a list of stages. Error (usage), as above.
Result<std::vector<Stage>> parse_stages(std::string_view text);
std::string stages_text(const std::vector<Stage>& stages);

}  // namespace es
