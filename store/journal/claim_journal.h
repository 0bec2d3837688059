#pragma once
// ClaimJournal: the claims of serving jobs on devices. They hold until they are released, whatever
// restarts meanwhile. Every write is on the disk before the call returns.
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

struct ClaimRecord {
  std::string name;
  DeviceType type;
  std::uint32_t count = 0;
  bool operator==(const ClaimRecord&) const = default;
};

// Error (failure): not what ClaimJournal wrote.
Result<ClaimRecord> decode_claim(std::string_view bytes);

class ClaimJournal {
 public:
  // `store` must outlive this object.
  explicit ClaimJournal(KeyValueStore& store) : store_(store) {}

  // Inserts, or replaces the one of this name.
  Status save(const ClaimRecord& claim);
  // No error when it is not there.
  Status erase(const std::string& name);
  // By name. Error (failure): a record cannot be read.
  Result<std::vector<ClaimRecord>> load_all() const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
