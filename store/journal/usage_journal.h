#pragma once
// UsageJournal keeps what each queue has used, for decayed fair share. A write may be lost with the
// last seconds before a crash of the machine.
//
// One thread of the head owns it.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

struct UsageRecord {
  std::string queue;
  double device_seconds = 0;  // decayed until unix_ms
  std::uint64_t unix_ms = 0;
  bool operator==(const UsageRecord&) const = default;
};

// Error (failure): the bytes were not written by UsageJournal.
Result<UsageRecord> decode_usage(std::string_view bytes);

class UsageJournal {
 public:
  // `store` must outlive this object.
  explicit UsageJournal(KeyValueStore& store) : store_(store) {}

  // Inserts the records, or replaces those of these queues, all or none.
  Status save(const std::vector<UsageRecord>& records);
  // By name. Error (failure): a record cannot be read.
  Result<std::vector<UsageRecord>> load_all() const;

 private:
  KeyValueStore& store_;
};

}  // namespace es::store
