#pragma once
// DeviceId names one device of a cluster.
#include <compare>
#include <cstdint>
#include <string>

#include "proto/base/device.h"

namespace es {

// A device of the cluster. The triple (node, type, index) is unique.
struct DeviceId {
  std::string node;
  DeviceType type;
  std::uint32_t index = 0;  // index among the devices of this type on this node
  auto operator<=>(const DeviceId&) const = default;
  // "NODE/TYPE:INDEX", for log lines and messages to users.
  std::string text() const { return node + "/" + type.name + ":" + std::to_string(index); }
};

}  // namespace es
