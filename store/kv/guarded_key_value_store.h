#pragma once
// GuardedKeyValueStore is a store on a disk that may be full, read-only or broken for some time. A
// write that succeeded has happened. A write that failed has not happened and will not happen
// later: if the disk has kept it after all, it is undone before the next write.
//
// After a failed write all further writes fail at once, with the same reason, until recover()
// succeeds. Reads continue. A caller therefore keeps what it has to write, and writes it later in
// its own order.
//
// Thread-safe.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "store/kv/key_value_store.h"

namespace es::store {

class GuardedKeyValueStore final : public KeyValueStore {
 public:
  explicit GuardedKeyValueStore(std::unique_ptr<KeyValueStore> values)
      : values_(std::move(values)) {}

  Result<std::optional<std::string>> get(std::string_view key) const override {
    return values_->get(key);
  }
  // Error (refused): the storage cannot be written now; nothing has changed.
  Status write(const WriteBatch& batch, Durability durability) override;
  Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const override {
    return values_->scan(begin, end, visit);
  }
  Result<std::optional<KeyValue>> last(std::string_view begin,
                                       std::string_view end) const override {
    return values_->last(begin, end);
  }
  Status sync() override;
  Status recover() override;

  // Why nothing can be written, as far as is known; nullopt if writes are possible.
  std::optional<Error> trouble() const;
  // Tests whether the storage accepts a small write, which changes no record.
  Status try_write();

 private:
  using Pairs = std::map<std::string, std::optional<std::string>>;
  Status fail(const WriteBatch& batch, const Error& reason);

  std::unique_ptr<KeyValueStore> values_;
  mutable std::mutex mutex_;
  std::optional<Error> trouble_;  // guarded by mutex_
  Pairs before_;                  // guarded by mutex_: values before failed writes
};

}  // namespace es::store
