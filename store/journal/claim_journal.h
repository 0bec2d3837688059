#pragma once
// ClaimJournal keeps the claims of serving jobs on devices, and reservations. A claim lasts until
// it is released, also across restarts, and a reservation until its end. Every write is on disk
// before the call returns.
//
// One thread of the head owns it.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/base/device.h"
#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

struct ClaimRecord {
  std::string name;
  DeviceType type;
  std::uint32_t count = 0;
  // Of a reservation, in milliseconds since 1970; 0 and 0 for a claim.
  std::uint64_t from_unix_ms = 0, until_unix_ms = 0;
  std::string queue = {};  // that is guaranteed the devices; empty: a load outside of EasyScale
  bool operator==(const ClaimRecord&) const = default;
};

// Error (failure): the bytes were not written by ClaimJournal.
Result<ClaimRecord> decode_claim(std::string_view bytes);

// The oldest version of a claim record that is read, and the one that is written.
std::pair<std::uint32_t, std::uint32_t> claim_record_versions();

class ClaimJournal {
 public:
  // `store` must outlive this object.
  explicit ClaimJournal(KeyValueStore& store) : store_(store) {}

  // Inserts the claim, or replaces the claim with this name.
  Status save(const ClaimRecord& claim);
  // It is no error if the claim does not exist.
  Status erase(const std::string& name);
  // All claims by name. Error (failure): a record cannot be read.
  Result<std::vector<ClaimRecord>> load_all() const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
