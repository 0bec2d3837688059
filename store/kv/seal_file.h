#pragma once
// SealFile: beside the files of the database, the number of the newest change that is known to be
// on the disk. The database cannot see by itself that the end of its log is missing.
//
// One line of text, written in place: the number, and its digest. Not thread-safe.
#include <cstdint>
#include <filesystem>
#include <string>

#include "proto/base/result.h"

namespace es::store {

class SealFile {
 public:
  static constexpr const char* kName = "SEAL";

  // Number 0 when the file is not there, or was made and not written. Error (failure): unreadable,
  // or damaged.
  static Result<std::uint64_t> read(const std::filesystem::path& directory);

  // Opens it, making it if it is absent.
  static Result<SealFile> open(const std::filesystem::path& directory);
  SealFile(SealFile&& other) noexcept;
  SealFile& operator=(SealFile&& other) noexcept;
  ~SealFile();

  // On the disk when it returns.
  Status write(std::uint64_t number);

 private:
  SealFile(int descriptor, std::filesystem::path path);

  int descriptor_ = -1;
  std::filesystem::path path_;
};

}  // namespace es::store
