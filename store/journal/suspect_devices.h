#pragma once
// SuspectDevices keeps the devices that an audit has found to compute wrongly. A device stays
// suspect until an operator clears it, also across restarts. Every write is on disk before the call
// returns.
//
// One thread of the head owns it.
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

// Error (failure): the bytes were not written by SuspectDevices.
Result<SuspectDevice> decode_suspect_device(std::string_view bytes);

class SuspectDevices {
 public:
  // `store` must outlive this object.
  explicit SuspectDevices(KeyValueStore& store) : store_(store) {}

  // Inserts the device, or replaces its reason.
  Status save(const SuspectDevice& device);
  // It is no error if the device is not suspect. The reason is ignored.
  Status clear(const SuspectDevice& device);
  // Error (failure): a record cannot be read.
  Result<std::vector<SuspectDevice>> load_all() const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
