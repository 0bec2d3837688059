#pragma once
// KeyValueStore: an ordered map of byte strings on disk, with atomic batches. What the head keeps
// (jobs, plans, ledgers) lies in one such store; README.md has the table of keys.
//
// Two implementations: RocksDB (rocksdb_key_value_store.h) and memory (tests and simulation).
// Thread-safe. Errors of the storage are failures that name the store and the reason.
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

struct KeyValue {
  std::string key;
  std::string value;
  bool operator==(const KeyValue&) const = default;
};

// Changes that happen together or not at all, in order.
class WriteBatch {
 public:
  struct Change {
    std::string key;
    std::optional<std::string> value;  // none = erase
  };

  void put(std::string key, std::string value) {
    changes_.push_back({std::move(key), std::move(value)});
  }
  void erase(std::string key) { changes_.push_back({std::move(key), std::nullopt}); }
  const std::vector<Change>& changes() const { return changes_; }

 private:
  std::vector<Change> changes_;
};

enum class Durability {
  kSynced,    // on the disk before write() returns
  kBuffered,  // survives the death of the process, and a power cut once a later write is synced
};

class KeyValueStore {
 public:
  // Sees the pairs in ascending order; returns false to stop. Must not write to the store.
  using Visitor = std::function<bool(std::string_view key, std::string_view value)>;

  virtual ~KeyValueStore() = default;

  // None when the key is absent.
  virtual Result<std::optional<std::string>> get(std::string_view key) const = 0;
  virtual Status write(const WriteBatch& batch, Durability durability) = 0;
  // Visits all keys in [begin, end), ordered as unsigned bytes, of one state of the store.
  virtual Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const = 0;
  // The largest key in [begin, end); none when there is none.
  virtual Result<std::optional<KeyValue>> last(std::string_view begin,
                                               std::string_view end) const = 0;
  // Everything that was written is on the disk when it returns.
  virtual Status sync() = 0;
  // After a failed write: makes the store writable again, where the storage allows it. Error: why
  // it still cannot be written; it can be read as before, and called again.
  virtual Status recover() = 0;
};

}  // namespace es::store
