#pragma once
// GuardedKeyValueStore: a store on a disk that may be full, read-only or broken for a while. What
// is written has happened, and a write that failed has not, neither now nor later: it is undone
// before the next one, should the disk have kept it after all.
//
// After a failed write all others fail at once, with the same reason, until recover() succeeds.
// Reads go on. So whoever has something to write keeps it, and writes it in its own order later.
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

  // Why nothing can be written, as far as is known; none: it can.
  std::optional<Error> trouble() const;
  // Whether the storage takes a small write now, which changes no record.
  Status try_write();

 private:
  using Pairs = std::map<std::string, std::optional<std::string>>;
  Status fail(const WriteBatch& batch, const Error& reason);

  std::unique_ptr<KeyValueStore> values_;
  mutable std::mutex mutex_;
  std::optional<Error> trouble_;  // guarded by mutex_
  Pairs before_;                  // guarded by mutex_: what failed writes were about to replace
};

}  // namespace es::store
