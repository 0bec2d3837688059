#pragma once
// KeyValueStore in a RocksDB database: the state directory of the head.
#include <filesystem>
#include <memory>

#include "proto/base/result.h"
#include "store/kv/key_value_store.h"

namespace es::store {

// Version of the tables and their values together.
inline constexpr const char* kSchemaVersion = "1";

// Opens the state directory and creates it (but not its parent) if it does not exist. It stays
// locked until the store is destroyed or the process ends, in whatever way. The call reads the
// whole database, because damage is never repaired silently. Only a last write that a crash has cut
// is dropped; that write was never acknowledged. A damaged directory is not changed. Errors:
// refused (in use by another process, or already open in this one), not found (no parent), failure
// (unreadable, damaged, or of another schema version; the message names the file).
//
// A write that fails may leave the database unwritable until recover() opens it again. Reads
// continue, even while recover() does not succeed. A synced write that is in the log has succeeded,
// even if its seal (seal_file.h) cannot be written; the next write then fails instead, unless it
// can write that seal first.
Result<std::unique_ptr<KeyValueStore>> open_state_directory(const std::filesystem::path& directory);

}  // namespace es::store
