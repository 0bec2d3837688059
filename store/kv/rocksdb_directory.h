#pragma once
// The directory of a RocksDB database from outside: whether it is whole, and whether it can be
// written.
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

// What RocksDB says of damage beside its status, which does not always name the file. Thread-safe.
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

// All of the database can be read, and nothing of it is missing. Changes nothing. A directory that
// is not there, or has no database, is in order. Errors: refused (somebody has it open), not found
// (no parent), failure (names the file).
Status check_directory(const std::filesystem::path& directory);

// Why the database cannot be opened: somebody has it open, or it is damaged.
Error open_error(const std::filesystem::path& directory, const rocksdb::Status& status);

// Whether the disk takes a file of the size that opening a database needs.
Status try_to_write(const std::filesystem::path& directory);

}  // namespace es::store
