#pragma once
// KeyValueStore in a RocksDB database: the head's state directory.
#include <filesystem>
#include <memory>

#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

// Of the tables and their values together.
inline constexpr const char* kSchemaVersion = "1";

// Opens the state directory, making it (not its parent) if it is absent. It stays locked until the
// store is destroyed or the process ends, however it ends. Reads all of it, since damage is never
// repaired silently: only a last write that a crash cut short is dropped, and that one was never
// acknowledged. A damaged directory is left as it is.
// Errors: refused (in use by another process, or already open in this one), not found (no parent),
// failure (unreadable, damaged, or of another version of the schema; the message names the file).
//
// A write that fails may leave the database unwritable until recover() opens it anew. Reads go on,
// also while that does not succeed.
Result<std::unique_ptr<KeyValueStore>> open_state_directory(const std::filesystem::path& directory);

}  // namespace es::store
