#include "store/kv/memory_key_value_store.h"

namespace es::store {

Result<std::optional<std::string>> MemoryKeyValueStore::get(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = pairs_.find(key);
  if (found == pairs_.end()) return std::optional<std::string>();
  return std::optional<std::string>(found->second);
}

Status MemoryKeyValueStore::write(const WriteBatch& batch, Durability) {
  const std::lock_guard lock(mutex_);
  for (const WriteBatch::Change& change : batch.changes()) {
    if (change.value)
      pairs_[change.key] = *change.value;
    else
      pairs_.erase(change.key);
  }
  return {};
}

Status MemoryKeyValueStore::scan(std::string_view begin, std::string_view end,
                                 const Visitor& visit) const {
  const std::lock_guard lock(mutex_);
  for (auto at = pairs_.lower_bound(begin); at != pairs_.end() && at->first < end; ++at)
    if (!visit(at->first, at->second)) break;
  return {};
}

Result<std::optional<KeyValue>> MemoryKeyValueStore::last(std::string_view begin,
                                                          std::string_view end) const {
  const std::lock_guard lock(mutex_);
  auto at = pairs_.lower_bound(end);
  if (at == pairs_.begin()) return std::optional<KeyValue>();
  --at;
  if (at->first < begin) return std::optional<KeyValue>();
  return std::optional<KeyValue>(KeyValue{at->first, at->second});
}

}  // namespace es::store
