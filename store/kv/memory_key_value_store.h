#pragma once
// KeyValueStore in memory, for tests and simulation. The contents are lost with the object.
#include <map>
#include <memory>
#include <mutex>

#include "store/kv/key_value_store.h"

namespace es::store {

class MemoryKeyValueStore final : public KeyValueStore {
 public:
  Result<std::optional<std::string>> get(std::string_view key) const override;
  Status write(const WriteBatch& batch, Durability durability) override;
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override;
  Result<std::optional<KeyValue>> last(std::string_view begin, std::string_view end) const override;
  Status sync() override { return {}; }
  Status recover() override { return {}; }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string, std::less<>> pairs_;  // guarded by mutex_
};

}  // namespace es::store
