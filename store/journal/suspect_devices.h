#pragma once
// SuspectDevices: the devices that an audit has found to compute wrongly. They stay suspect until
// an operator clears them, whatever restarts meanwhile. Every write is on the disk before the call
// returns.
//
// Owned by one thread of the head.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

struct SuspectDevice {
  std::string node;
  DeviceType type;
  std::uint32_t index = 0;
  std::string reason;  // one line for a person
  bool operator==(const SuspectDevice&) const = default;
};

// Error (failure): not what SuspectDevices wrote.
Result<SuspectDevice> decode_suspect_device(std::string_view bytes);

class SuspectDevices {
 public:
  // `store` must outlive this object.
  explicit SuspectDevices(KeyValueStore& store) : store_(store) {}

  // Inserts, or replaces the reason.
  Status save(const SuspectDevice& device);
  // No error when it is not there. The reason does not matter.
  Status clear(const SuspectDevice& device);
  // Error (failure): a record cannot be read.
  Result<std::vector<SuspectDevice>> load_all() const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
