#pragma once
// KeyValueStore is an ordered map of byte strings on disk, with atomic batches. The head keeps its
// state (jobs, plans, ledgers and others) in one such store; docs/reference/state-directory.md
// lists the keys.
//
// There are two implementations: RocksDB (rocksdb_key_value_store.h) and memory (for tests and
// simulation). Thread-safe. An error of the storage is a failure that names the store and the
// reason.
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

// Changes that happen all together or not at all, in order.
class WriteBatch {
 public:
  struct Change {
    std::string key;
    std::optional<std::string> value;  // nullopt erases the key
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
  kSynced,    // on disk before write() returns
  kBuffered,  // survives the end of the process, and a power cut once a later write is synced
};

class KeyValueStore {
 public:
  // Called with the pairs in ascending order; returns false to stop. Must not write to the store.
  using Visitor = std::function<bool(std::string_view key, std::string_view value)>;

  virtual ~KeyValueStore() = default;

  // Returns nullopt if the key does not exist.
  virtual Result<std::optional<std::string>> get(std::string_view key) const = 0;
  // If it fails, no read returns the changes until recover() is called, although the disk may have
  // kept them.
  virtual Status write(const WriteBatch& batch, Durability durability) = 0;
  // Visits all keys in [begin, end), ordered as unsigned bytes, of one state of the store.
  virtual Status scan(std::string_view begin, std::string_view end, const Visitor& visit) const = 0;
  // The largest key in [begin, end) with its value; nullopt if there is none.
  virtual Result<std::optional<KeyValue>> last(std::string_view begin,
                                               std::string_view end) const = 0;
  // Returns when everything that was written is on disk.
  virtual Status sync() = 0;
  // Makes the store writable again after a failed write, if the storage allows it. Error: the
  // reason why it still cannot be written. Reads are still possible, and recover() may be called
  // again.
  virtual Status recover() = 0;
};

}  // namespace es::store
