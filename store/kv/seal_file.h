#pragma once
// SealFile lies beside the files of the database and contains the number of the newest change that
// is known to be on disk. The database cannot detect by itself that the end of its log is missing.
//
// The file is one line of text, written in place: the number and its digest. Not thread-safe.
#include <cstdint>
#include <filesystem>
#include <string>

#include "proto/base/result.h"

namespace es::store {

class SealFile {
 public:
  static constexpr const char* kName = "SEAL";

  // Returns 0 if the file does not exist, or was created but not written. Error (failure): the file
  // is unreadable or damaged.
  static Result<std::uint64_t> read(const std::filesystem::path& directory);

  // Opens the file and creates it if it does not exist.
  static Result<SealFile> open(const std::filesystem::path& directory);
  SealFile(SealFile&& other) noexcept;
  SealFile& operator=(SealFile&& other) noexcept;
  ~SealFile();

  // The number is on disk when the call returns.
  Status write(std::uint64_t number);

 private:
  SealFile(int descriptor, std::filesystem::path path);

  int descriptor_ = -1;
  std::filesystem::path path_;
};

}  // namespace es::store
