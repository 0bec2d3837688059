#pragma once
// Checks the directory of a RocksDB database from outside: whether it is undamaged, and whether it
// can be written.
#include <rocksdb/env.h>
#include <rocksdb/options.h>
#include <rocksdb/status.h>

#include <cstdarg>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "proto/base/result.h"

namespace es::store {

rocksdb::Options database_options();

// Collects messages of RocksDB about damage. Its status does not always name the file. Thread-safe.
class Complaints final : public rocksdb::Logger {
 public:
  Complaints() : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override;
  std::vector<std::string> lines() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;  // guarded by mutex_
};

// Checks that all of the database can be read and nothing is missing. Changes nothing. A directory
// that does not exist or contains no database is valid. Errors: refused (a process has it open),
// not found (no parent), failure (names the file, or an interrupted recovery).
Status check_directory(const std::filesystem::path& directory);

// Why the database cannot be opened: a process has it open, or it is damaged.
Error open_error(const std::filesystem::path& directory, const rocksdb::Status& status);

// Where a recovery keeps a damaged directory until the new one is in its place. If only this one
// exists, a recovery was interrupted.
std::filesystem::path original_during_recovery(const std::filesystem::path& directory);

// Tests whether the disk accepts a file of the size that opening a database needs.
Status try_to_write(const std::filesystem::path& directory);

}  // namespace es::store
